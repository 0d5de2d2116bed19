"""pdfium, as its own functions: the documents, pages and strings that the other modules for PDF ask it for.

The one module that imports pypdfium2. Its functions are made by ctypes and have no types, so they are handed
out as Any. pdfium is not thread-safe; the converter process reads one file at a time.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, cast

import pypdfium2.raw  # pyright: ignore[reportMissingTypeStubs]

raw = cast("Any", pypdfium2.raw)

# No title or note is longer; a lie about a string's length costs no more than this.
_MOST_STRING_BYTES = 1 << 20


class CannotOpen(Exception):
    """pdfium did not open the file."""

    def __init__(self, *, is_locked: bool, is_foreign: bool) -> None:
        super().__init__("locked" if is_locked else "damaged")
        self.is_locked = is_locked  # with a password
        self.is_foreign = is_foreign  # with a lock that pdfium has no way to open


@contextmanager
def opened(data: bytes) -> Generator[Any]:
    """The document; an empty password opens those that only printing or copying is locked in."""
    document = raw.FPDF_LoadMemDocument64(data, len(data), None)
    if not document:
        code = int(raw.FPDF_GetLastError())
        raise CannotOpen(is_locked=code == raw.FPDF_ERR_PASSWORD, is_foreign=code == raw.FPDF_ERR_SECURITY)
    try:
        yield document
    finally:
        raw.FPDF_CloseDocument(document)


@contextmanager
def opened_page(document: Any, index: int) -> Generator[tuple[Any, Any]]:
    """A page and its text, each None where pdfium cannot load it."""
    page = raw.FPDF_LoadPage(document, index)
    text = raw.FPDFText_LoadPage(page) if page else None
    try:
        yield page or None, text or None
    finally:
        if text:
            raw.FPDFText_ClosePage(text)
        if page:
            raw.FPDF_ClosePage(page)


@contextmanager
def form_of(document: Any) -> Generator[Any]:
    """What the values of fields are asked of; None if the document is no form."""
    if raw.FPDF_GetFormType(document) == raw.FORMTYPE_NONE:
        yield None
        return
    # pdfium keeps the address: it must live as long as the form.
    info = raw.FPDF_FORMFILLINFO(version=2)
    form = raw.FPDFDOC_InitFormFillEnvironment(document, ctypes.byref(info))
    try:
        yield form or None
    finally:
        if form:
            raw.FPDFDOC_ExitFormFillEnvironment(form)


def string(get: Callable[..., int], *arguments: Any) -> str:
    """A string by one of pdfium's functions that take a buffer and its length last, and give the length."""
    length = int(get(*arguments, None, 0))
    if not 2 < length <= _MOST_STRING_BYTES:
        return ""
    buffer = ctypes.create_string_buffer(length)
    # Some functions take an array of their own kind of character.
    kinds: Any = getattr(get, "argtypes", None)
    where = ctypes.cast(buffer, kinds[-2]) if kinds else buffer
    get(*arguments, where, length)
    return buffer.raw[: length - 2].decode("utf-16-le", "ignore")
