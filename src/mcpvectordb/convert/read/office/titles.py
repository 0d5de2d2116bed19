"""Whether a title in a document's properties is one. Pure."""

from __future__ import annotations

import re

from .prose import one_line

# What programs write there by themselves.
_PRESENTATION = (
    r"presentation|präsentation|présentation|presentaci[oó]n|apresentação|presentazione|presentatie|prezentacja"
    r"|презентация|презентація|演示文稿|簡報|プレゼンテーション|프레젠테이션"
)
_MADE_UP = re.compile(
    r"(?:untitled|unbenannt|sans titre|sin t[ií]tulo|sem título|senza titolo|без названия|無題|无标题)"
    r"(?:[ _-]*(?:document|presentation|spreadsheet|dokument|\d+))?[ _-]*\d*"
    rf"|(?:microsoft )?(?:office )?powerpoint[ -]*(?:{_PRESENTATION})?"
    rf"|(?:{_PRESENTATION}) (?:de |do |di |standard di )?(?:microsoft )?powerpoint|(?:{_PRESENTATION})\d*"
    r"|(?:slide|folie|diapositiv[ae]|dia|slajd|слайд|幻灯片|スライド)(?: (?:no|nr|number)\.?)? ?\d*"
    r"|(?:microsoft )?(?:word|excel|office|office word)(?:[ -](?:document|dokument|workbook))?"
    r"|document ?\d*|dokument ?\d*|title|titel|template|blank|normal|book ?\d*|workbook ?\d*"
    r"|[(\[<]?(?:anonymous|unnamed|unknown|no ?title|none|null|untitled)[)\]>]?"
    # What is drawn, printed or scanned is called by that.
    r"|(?:layout|page|seite|sheet|drawing|zeichnung|artboard) ?\d*|full page (?:photo|print)"
    r"|(?:adobe )?(?:photoshop|illustrator|indesign|acrobat|pagemaker|framemaker) (?:pdf|document|file)"
    r"|(?:pdf|print|scan|scanned) ?(?:document|image|job)?"
    # Bytes that were to be a name, in hexadecimals, and names of things in a database.
    r"|<[0-9a-f]{8,}>?|\{?[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\}?"
    r"|microsoft (?:word|powerpoint|excel|office \w+) - .*"
    r"|.*\.(?:docx?|docm|dot[xm]?|pptx?|pptm|pot[xm]?|pps[xm]?|xlsx?|xlsm|xlt[xm]?|od[tsp]|ot[tsp]|rtf|tmp|qxd|indd)",
    re.I,
)
_LETTER = re.compile(r"[^\W\d_]")
_LONGEST = 300


def useful_title(title: str) -> str:
    """The title on one line; "" if it names a program, a template or a file rather than the document."""
    title = one_line(title)
    if len(title) < 2 or len(title) > _LONGEST or not _LETTER.search(title) or _MADE_UP.fullmatch(title):
        return ""
    return title
