"""What is said of a PDF that was not read, or not all of it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mcpvectordb.errors import ConversionError

_MOST_NAMES = 5
_PRINT_IT = "Print it to a new PDF there and add that."
XFA_NOTICE = f"It is a form that only Adobe Acrobat shows. {_PRINT_IT}"


def no_text(file_name: str, count: int, scanned: Sequence[int], *, is_xfa: bool) -> ConversionError:
    if is_xfa:
        return ConversionError(
            f"{file_name} holds no text of its own: it is a form that only Adobe Acrobat shows. {_PRINT_IT}"
        )
    if not scanned:
        return ConversionError(
            f"{file_name} holds no text: its {_pages_word(count)} {'is' if count == 1 else 'are'} blank."
        )
    what = "is a scan or a picture" if count == 1 else "are scans or pictures"
    return ConversionError(
        f"{file_name} has no text layer: its {_pages_word(count)} {what}. "
        "Run it through OCR (ocrmypdf, for example) and add the result."
    )


def scanned_notice(scanned: Sequence[int], count: int) -> str:
    if not scanned:
        return ""
    if len(scanned) == 1:
        which = f"Page {scanned[0]} of {count} is a picture without a text layer and was"
    else:
        which = f"Pages {_ranges(scanned)} of {count} are pictures without a text layer and were"
    return f"{which} not read: run the PDF through OCR and add the result."


def missing_notice(missing: Sequence[int], count: int) -> str:
    if not missing:
        return ""
    which = (
        f"Page {missing[0]} of {count} is"
        if len(missing) == 1
        else f"Pages {_ranges(missing)} of {count} are"
    )
    return f"{which} damaged and could not be read: get the file again if you need more than the rest."


def attachments_notice(names: Sequence[str]) -> str:
    if not names:
        return ""
    listed = ", ".join([*names[:_MOST_NAMES], *(["…"] if len(names) > _MOST_NAMES else [])])
    return f"Files attached to it were not read ({listed}): save them and add them by themselves."


def _pages_word(count: int) -> str:
    return "1 page" if count == 1 else f"{count} pages"


def _ranges(numbers: Iterable[int]) -> str:
    """2, 5-9"""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
