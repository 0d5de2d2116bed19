"""The chunks of a document as places in its text: a long text is in memory once, not once more in parts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, overload

from mcpvectordb.models import Chunk


class _Place(NamedTuple):
    start: int
    end: int
    headings: tuple[str, ...]
    page: int
    page_end: int
    context: str


class Passages(Sequence[Chunk]):
    """Chunks that are made again each time they are asked for."""

    def __init__(self, text: str, chunks: Iterable[Chunk]) -> None:
        self._text = text
        self._places = [
            _Place(piece.start, piece.end, piece.headings, piece.page, piece.page_end, piece.context)
            for piece in chunks
        ]

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, index: int) -> Chunk: ...
    @overload
    def __getitem__(self, index: slice) -> list[Chunk]: ...
    def __getitem__(self, index: int | slice) -> Chunk | list[Chunk]:
        positions = range(len(self._places))[index]
        if isinstance(positions, range):
            return [self._chunk(position) for position in positions]
        return self._chunk(positions)

    def _chunk(self, position: int) -> Chunk:
        place = self._places[position]
        return Chunk(
            index=position,
            content=self._text[place.start : place.end],
            start=place.start,
            headings=place.headings,
            page=place.page,
            page_end=place.page_end,
            context=place.context,
        )
