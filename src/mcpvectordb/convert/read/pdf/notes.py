"""What is added to a PDF: the values of a form's fields, its readers' notes, files attached to it."""

from __future__ import annotations

from typing import Any

from .raw import raw, string
from .text import clean

# Drawings of maps carry tens of thousands of annotations, and no note.
_MOST = 5_000
_MOST_ATTACHMENTS = 6


def written_on(page: Any, form: Any, page_text: str) -> list[str]:
    """One line each: what has been filled in, and the notes that say more than the page does."""
    found: list[str] = []
    for index in range(min(int(raw.FPDFPage_GetAnnotCount(page)), _MOST)):
        annotation = raw.FPDFPage_GetAnnot(page, index)
        if not annotation:
            continue
        try:
            kind = int(raw.FPDFAnnot_GetSubtype(annotation))
            if kind == raw.FPDF_ANNOT_WIDGET:
                line = _field(form, annotation) if form is not None else ""
            elif kind in (raw.FPDF_ANNOT_LINK, raw.FPDF_ANNOT_POPUP):
                continue
            else:
                line = _note(annotation, page_text, is_on_page=kind == raw.FPDF_ANNOT_FREETEXT)
        finally:
            raw.FPDFPage_CloseAnnot(annotation)
        if line and line not in found[-20:]:
            found.append(line)
    return found


def _field(form: Any, annotation: Any) -> str:
    kind = int(raw.FPDFAnnot_GetFormFieldType(form, annotation))
    if kind in (raw.FPDF_FORMFIELD_CHECKBOX, raw.FPDF_FORMFIELD_RADIOBUTTON):
        value = clean(string(raw.FPDFAnnot_GetStringValue, annotation, b"AS"))
        if value == "Off":
            return ""
    elif kind in (raw.FPDF_FORMFIELD_TEXTFIELD, raw.FPDF_FORMFIELD_COMBOBOX, raw.FPDF_FORMFIELD_LISTBOX):
        value = clean(string(raw.FPDFAnnot_GetFormFieldValue, form, annotation))
    else:
        return ""
    if not value:
        return ""
    name = clean(string(raw.FPDFAnnot_GetFormFieldAlternateName, form, annotation))
    if not name:
        # The names of fields within others: form[0].page[0].surname[0].
        whole = clean(string(raw.FPDFAnnot_GetFormFieldName, form, annotation))
        name = whole.rpartition(".")[2].removesuffix("[0]") or whole
    return f"- {name}: {value}" if name else f"- {value}"


def _note(annotation: Any, page_text: str, *, is_on_page: bool) -> str:
    text = clean(string(raw.FPDFAnnot_GetStringValue, annotation, b"Contents"))
    # Some programs copy the words that are marked.
    if not text or text in page_text:
        return ""
    if is_on_page:
        return text
    author = clean(string(raw.FPDFAnnot_GetStringValue, annotation, b"T"))
    return f"- Note ({author}): {text}" if author else f"- Note: {text}"


def attachments(document: Any) -> list[str]:
    """The names of the files that the document carries, as many as are worth naming and one more."""
    count = min(int(raw.FPDFDoc_GetAttachmentCount(document)), _MOST_ATTACHMENTS)
    handles = [raw.FPDFDoc_GetAttachment(document, index) for index in range(count)]
    return [
        clean(string(raw.FPDFAttachment_GetName, handle)) or "without a name" for handle in handles if handle
    ]
