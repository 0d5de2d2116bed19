"""A source becomes a stored document: skip by hash, convert, chunk, embed, and write last.

Nothing is written before everything that can fail has been done, so a failed conversion or a missing
model leaves the old version of a document as it was.
"""

from __future__ import annotations

from .drafts import Request, limits_for
from .ingester import Ingester, embed_in_steps

__all__ = ["Ingester", "Request", "embed_in_steps", "limits_for"]
