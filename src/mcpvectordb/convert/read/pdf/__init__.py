"""PDFs to Markdown, page by page with pdfium: paragraphs, headings, lists and tables, with a mark per page.

A page without a text layer is a picture: it is named, not read. A page that is damaged costs that page alone.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from typing import Any

from mcpvectordb.convert.read import Read
from mcpvectordb.convert.read.office.prose import paragraph
from mcpvectordb.convert.read.office.titles import useful_title
from mcpvectordb.errors import ConversionError
from mcpvectordb.models import PageMark

from .layout import Block
from .notes import attachments
from .notices import XFA_NOTICE, attachments_notice, missing_notice, no_text, scanned_notice
from .page import PageRead, read_page
from .raw import CannotOpen, form_of, opened, opened_page, raw, string
from .shape import Headings, plain_key, without_running
from .text import HYPHEN, clean, compounds, mended

# A page tree that promises a million pages and has ten is damaged at its end.
_MOST_MISSING_IN_A_ROW = 1_000
_MOST_OUTLINE_ENTRIES = 5_000
_MOST_OUTLINE_LEVELS = 6
_FILE_NAME = re.compile(r".*\.(?:pdf|dvi|tex|ps|eps|html?|txt|p65|pmd|fm|wpd|jpe?g|png|tiff?)", re.I)
_PRINTED = re.compile(r"(?:microsoft \w+|powerpoint|print|printing) - .*|about:blank|https?://\S+", re.I)
_ENDS_SENTENCE = re.compile(r"[.!?:;。！？：；…][\"'”’»)\]]*$")


def read(data: bytes, file_name: str) -> Read:
    try:
        with opened(data) as document, form_of(document) as form:
            return _read(document, form, file_name)
    except CannotOpen as exc:
        if exc.is_locked:
            raise ConversionError(
                f"{file_name} is encrypted with a password: save a copy without one and add that."
            ) from exc
        if exc.is_foreign:
            raise ConversionError(
                f"{file_name} is encrypted in a way that only the program which made it can open: "
                "print it to a new PDF there and add that."
            ) from exc
        raise ConversionError(
            f"{file_name} is damaged or cut short and cannot be opened as a PDF: get it again, "
            "or open it in its program and save it again."
        ) from exc


def _read(document: Any, form: Any, file_name: str) -> Read:
    count = int(raw.FPDF_GetPageCount(document))
    if count <= 0:
        raise ConversionError(
            f"{file_name} has no pages: it is damaged or cut short. Get it again, or save it again."
        )
    numbers, pages, missing = _pages(document, form, count)
    if not pages:
        which = "not even its one page" if count == 1 else f"none of its {count} pages"
        raise ConversionError(
            f"{file_name} is damaged: {which} can be read. Get it again, "
            "or open it in its program and save it again."
        )
    kept = without_running(pages)
    scanned = [
        number
        for number, page, blocks in zip(numbers, pages, kept, strict=True)
        if page.is_pictured and not blocks
    ]
    is_xfa = _is_xfa(document, pages)
    # A signature under a scan does not make it a text.
    has_text = any(page.blocks or page.written for page in pages)
    if not has_text and (scanned or not any(page.stamped for page in pages)):
        raise no_text(file_name, count, scanned, is_xfa=is_xfa)
    outline = _outline(document)
    text, marks = _Writer(numbers, pages, kept, Headings(kept, outline)).written()
    notices = (
        scanned_notice(scanned, count),
        missing_notice(missing, count),
        attachments_notice(attachments(document)),
        XFA_NOTICE if is_xfa else "",
    )
    return Read(
        text=text,
        title=_title(document, file_name),
        pages=marks,
        notice=" ".join(notice for notice in notices if notice),
    )


def _pages(document: Any, form: Any, count: int) -> tuple[list[int], list[PageRead], list[int]]:
    """The pages that can be read with their numbers, and the numbers of those that cannot."""
    numbers: list[int] = []
    pages: list[PageRead] = []
    missing: list[int] = []
    for number in range(1, count + 1):
        with opened_page(document, number - 1) as (page, text_page):
            if page is not None and text_page is not None:
                numbers.append(number)
                pages.append(read_page(document, number - 1, page, text_page, form))
                continue
        missing.append(number)
        if number - (numbers[-1] if numbers else 0) >= _MOST_MISSING_IN_A_ROW:
            missing += range(number + 1, count + 1)
            break
    return numbers, pages, missing


class _Writer:
    """The pages as one text. A sentence that goes on over the page goes on in the text."""

    def __init__(
        self,
        numbers: Sequence[int],
        pages: Sequence[PageRead],
        kept: Sequence[Sequence[Block]],
        headings: Headings,
    ) -> None:
        self._pages = list(zip(numbers, pages, kept, strict=True))
        self._headings = headings
        texts = [block.text for blocks in kept for block in blocks]
        is_broken = any(HYPHEN in text or text.endswith("-") for text in texts)
        self._known = compounds(texts) if is_broken else frozenset[str]()
        self._parts: list[str] = []
        self._length = 0
        self._marks: list[PageMark] = []
        self._open: Block | None = None  # the last block, where a sentence may go on from it

    def written(self) -> tuple[str, tuple[PageMark, ...]]:
        for number, page, blocks in self._pages:
            self._page(number, page, blocks)
        return "".join(self._parts), tuple(self._marks)

    def _page(self, number: int, page: PageRead, blocks: Sequence[Block]) -> None:
        is_first = True
        before = ""
        for block in blocks:
            level = self._headings.level(number, block)
            text = self._text(block, level)
            if not text:
                continue
            gap = "\n" if level == 0 and before == block.kind and before in ("item", "row") else "\n\n"
            if is_first and level == 0 and self._open is not None and _goes_on(self._open, block):
                gap = self._turned_over(block)
            self._add(gap, text, number if is_first else 0)
            is_first = False
            before = block.kind if level == 0 else ""
            self._open = block if level == 0 else None
        before = ""
        for line in (*page.written, *page.stamped):
            gap = "\n" if before.startswith("- ") and line.startswith("- ") else "\n\n"
            self._add(gap, paragraph(line), number if is_first else 0)
            is_first, before, self._open = False, line, None

    def _text(self, block: Block, level: int) -> str:
        # In a cell the other half of a word is in the same cell, or there is none.
        text = mended(block.text.replace(f"{HYPHEN} |", "- |"), self._known)
        if level:
            return f"{'#' * level} {' '.join(text.split())}"
        return text if block.kind == "table" else paragraph(text)

    def _turned_over(self, block: Block) -> str:
        """What stands between two halves of a sentence, on two pages; a word broken there is mended."""
        last = self._parts[-1]
        if not last.endswith("-"):
            return " "
        start, end = last[:-1].split()[-1:], block.text.split()[:1]
        if start and end and "-" not in mended(f"{start[0]}{HYPHEN}{end[0]}", self._known):
            self._parts[-1] = last[:-1]
            self._length -= 1
        return ""

    def _add(self, gap: str, text: str, number: int) -> None:
        if self._parts and gap:
            self._parts.append(gap)
            self._length += len(gap)
        if number:
            self._marks.append(PageMark(offset=self._length, page=number))
        self._parts.append(text)
        self._length += len(text)


def _goes_on(before: Block, after: Block) -> bool:
    return (
        before.kind in ("text", "item")
        and after.kind == "text"
        and abs(before.size - after.size) < 0.1 * before.size
        and len(before.text) > 40
        and after.text[:1].islower()
        and not _ENDS_SENTENCE.search(before.text)
    )


def _outline(document: Any) -> dict[tuple[int, str], int]:
    """The entries of the outline with their levels, by page and text."""
    found: dict[tuple[int, str], int] = {}
    left = _MOST_OUTLINE_ENTRIES
    seen: set[int | None] = set()  # an entry may lead back to itself
    waiting: list[tuple[Any, int]] = [(raw.FPDFBookmark_GetFirstChild(document, None), 1)]
    while waiting and left:
        entry, level = waiting.pop()
        address = ctypes.cast(entry, ctypes.c_void_p).value
        if not entry or address in seen:
            continue
        seen.add(address)
        left -= 1
        waiting.append((raw.FPDFBookmark_GetNextSibling(document, entry), level))
        if level < _MOST_OUTLINE_LEVELS:
            waiting.append((raw.FPDFBookmark_GetFirstChild(document, entry), level + 1))
        target = raw.FPDFBookmark_GetDest(document, entry)
        page = int(raw.FPDFDest_GetDestPageIndex(document, target)) + 1 if target else 0
        key = plain_key(clean(string(raw.FPDFBookmark_GetTitle, entry)))
        if page > 0 and key:
            found.setdefault((page, key), level)
    return found


def _title(document: Any, file_name: str) -> str:
    title = clean(string(raw.FPDF_GetMetaText, document, b"Title"))
    if _FILE_NAME.fullmatch(title) or _PRINTED.fullmatch(title):
        return ""
    # Scanners and printers write the file's name there: scan_0001.
    if title == file_name.rpartition(".")[0] and " " not in title:
        return ""
    return useful_title(title)


def _is_xfa(document: Any, pages: Sequence[PageRead]) -> bool:
    """Whether the pages are drawn by a program within; what is here is a page that asks to wait for it."""
    kind = int(raw.FPDF_GetFormType(document))
    if kind not in (raw.FORMTYPE_XFA_FULL, raw.FORMTYPE_XFA_FOREGROUND) or len(pages) > 1:
        return False
    text = " ".join(block.text for block in pages[0].blocks).casefold()
    return not text or "please wait" in text
