"""What `doctor` looks at, all parts together: the store, the jobs, the model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from .errors import VectorDBError
from .jobs import Ingestion
from .models import Finding
from .store import Store

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Checkup:
    def __init__(
        self, store: Store, ingestion: Ingestion, embed_query: Callable[[str], NDArray[np.float32]]
    ) -> None:
        self._store = store
        self._ingestion = ingestion
        self._embed_query = embed_query

    def doctor(self, *, fix: bool) -> tuple[Finding, ...]:
        """Check everything; with fix, mend what can be mended, and say what that was."""
        before = tuple(self._findings())
        if not fix or not any(finding.problem for finding in before):
            return before
        told = self._store.care.mend()
        self._ingestion.mend()
        after = {finding.check: finding for finding in self._findings()}
        return tuple(
            replace(finding, fixed=True)
            if finding.problem and finding.check in after and not after[finding.check].problem
            else finding
            for finding in (*before, *told)
        )

    def _findings(self) -> Iterator[Finding]:
        yield from self._store.care.findings()
        yield from self._ingestion.findings()
        yield self._model()

    def _model(self) -> Finding:
        """Whether the model can be had and gives vectors of the right size: by using it."""
        try:
            database = self._store.database()
            if database is None:
                return Finding(check="model")
            size = len(self._embed_query("a question"))
        except VectorDBError as exc:
            return Finding(check="model", problem=str(exc))
        if size != database.dimensions:
            return Finding(
                check="model", problem=f"It gives {size} dimensions, the database has {database.dimensions}."
            )
        return Finding(check="model")
