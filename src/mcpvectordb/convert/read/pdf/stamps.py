"""What signatures and stamps show on a page: who signed and when, "Approved", a number of a file.

pdfium reads the text of pages, not of what lies on them; so these are made part of the page first, which is
opened anew. That changes the document in memory, so it is the last thing that is done to a page.
"""

from __future__ import annotations

import ctypes
from typing import Any

from .lines import Box, read_lines
from .raw import opened_page, raw
from .text import clean, mended

_STAMPS = (raw.FPDF_ANNOT_STAMP, raw.FPDF_ANNOT_WATERMARK)
# All that lies on a page is made part of it. Drawings carry tens of thousands of annotations, which is more
# than memory has room for.
_MOST_ANNOTATIONS = 500
_MOST = 40


def stamps_on(document: Any, index: int, page: Any, form: Any, page_text: str, length: int) -> list[str]:
    """A text for each. `length` is the number of characters that pdfium counts on the page by itself."""
    places = _places(page, form)
    if not places or raw.FPDFPage_Flatten(page, raw.FLAT_NORMALDISPLAY) != raw.FLATTEN_SUCCESS:
        return []
    found: list[str] = []
    with opened_page(document, index) as (_, text_page):
        if text_page is not None:
            for place in places:
                text = _text_in(text_page, place, length)
                if text and text not in page_text and text not in found:
                    found.append(text)
    return found


def _places(page: Any, form: Any) -> list[Box]:
    places: list[Box] = []
    rect = raw.FS_RECTF()
    count = int(raw.FPDFPage_GetAnnotCount(page))
    for index in range(count if count <= _MOST_ANNOTATIONS else 0):
        annotation = raw.FPDFPage_GetAnnot(page, index)
        if not annotation:
            continue
        try:
            if _is_stamp(annotation, form) and raw.FPDFAnnot_GetRect(annotation, ctypes.byref(rect)):
                place = (rect.left, rect.bottom, rect.right, rect.top)
                # A signature that is not to be seen is a point.
                if rect.left < rect.right and rect.bottom < rect.top and place not in places:
                    places.append(place)
        finally:
            raw.FPDFPage_CloseAnnot(annotation)
        if len(places) == _MOST:
            break
    return places


def _is_stamp(annotation: Any, form: Any) -> bool:
    kind = int(raw.FPDFAnnot_GetSubtype(annotation))
    if kind == raw.FPDF_ANNOT_WIDGET and form is not None:
        return int(raw.FPDFAnnot_GetFormFieldType(form, annotation)) == raw.FPDF_FORMFIELD_SIGNATURE
    return kind in _STAMPS


def _text_in(text_page: Any, place: Box, length: int) -> str:
    """What came with the annotations stands behind what the page has by itself."""
    lines = [line.text for line in read_lines(text_page, place).lines if line.first >= length]
    return mended("\n".join(text for line in lines if (text := clean(line))), frozenset())
