"""RTF to Markdown: text in order, with headings, lists, tables, links, notes and comments.

Reads the format itself: the libraries for it give plain lines, and lose tables, notes, headings and letters
of other code pages. A text that breaks off or closes too early is read as far as it goes. Footnotes follow
the text, then headers and footers, each once, and the comments come last, as in Word documents.
"""

from __future__ import annotations

import re
from dataclasses import replace

from mcpvectordb.convert.read import Read
from mcpvectordb.convert.read.office.flow import Flow, tidy
from mcpvectordb.convert.read.office.prose import PLAIN, Format, image, one_line
from mcpvectordb.convert.read.office.titles import useful_title
from mcpvectordb.convert.text import is_binary
from mcpvectordb.errors import ConversionError

from .field import Field
from .head import FontTable, StyleSheet
from .machine import Group, Machine
from .story import Paragraph, Story
from .words import (
    BREAKS,
    FORMATS,
    IGNORED,
    MARGINS,
    MATH,
    OPENING,
    PARAGRAPHS,
    SETTING,
    SIGNS,
    TRANSPARENT,
)

_START = re.compile(rb"(?:\xef\xbb\xbf)?\s{0,8}\{\\rtf\d*(?![a-zA-Z])")
_MOST_NOTES = 10_000
# Each story ends in the one around it, so what is written deep inside would be written over and over.
_DEEPEST_STORY = 8


def read(data: bytes, file_name: str) -> Read:
    start = _START.match(data)
    if start is None:
        raise _not_rtf(file_name)
    reader = _Reader(data)
    reader.run(data.index(b"{"))
    if is_binary("".join(reader.sample)):
        raise _not_rtf(file_name)
    text = tidy(reader.text())
    if not text:
        raise ConversionError(
            f"{file_name} holds no text (only pictures, or nothing at all): "
            "if it shows scanned pages, run them through OCR and add the result."
        )
    notice = f"{file_name} breaks off; what there is of it was indexed." if reader.is_cut_off else ""
    return Read(text=text, title=useful_title("".join(reader.title)), notice=notice)


def _not_rtf(file_name: str) -> ConversionError:
    return ConversionError(
        f"{file_name} begins like RTF, but what follows is not RTF: open it in its program, "
        "save it again and add that."
    )


class _Reader(Machine):
    def __init__(self, data: bytes) -> None:
        self._sheet = StyleSheet()
        self._body = Story(self._sheet.style)
        super().__init__(data, self._body)
        self._default_font = 0
        self._table: FontTable | StyleSheet | None = None  # while it is read
        self._notes: list[str] = []
        self._margins: dict[str, None] = {}
        self._comments: list[str] = []
        self._author: list[str] = []
        self._property: list[str] = []
        self.title: list[str] = []

    def text(self) -> str:
        flow = self._body.finish(self._group.paragraph)
        flow.raw("\n".join(f"[^{place}]: {note}" for place, note in enumerate(self._notes, 1) if note))
        for margin in self._margins:
            flow.paragraph(margin)
        if self._comments:
            flow.heading(2, "Comments")
        for comment in self._comments:
            flow.item(0, "-", comment)
        return flow.text()

    # Words

    def _word(self, word: str, number: int | None, at: int) -> int:
        is_optional, self._is_optional = self._is_optional, False
        if word == "u":
            self._number(number or 0)
            return at
        if word in SIGNS:
            self._flush()
            if self._left_out:
                self._left_out -= 1
            else:
                self._put(SIGNS[word])
            return at
        self._flush()
        self._left_out = 0
        if word == "bin":
            return min(len(self._data), at + max(0, number or 0))
        if word in IGNORED or (word.endswith("Pr") and word.startswith("m")):
            return self._skip(at)
        if word in OPENING and self._opens(word):
            return at
        if word in SETTING and self._sets(word, number):
            return at
        if is_optional and word not in TRANSPARENT:
            return self._skip(at)
        if word in BREAKS:
            self._break(word)
        elif word in MATH:
            self._put(MATH[word])
        return at

    def _opens(self, word: str) -> bool:
        """Begin a destination: letters go elsewhere until the group ends."""
        group = self._group
        if word == "fonttbl":
            table = FontTable(self._letters)
            group.sink, self._table = table.add, table
            group.at_end = self._end_table
        elif word == "stylesheet":
            group.sink, self._table = self._sheet.add, self._sheet
            group.at_end = self._end_table
        elif word == "title" and group.sink is None:
            # It may be there twice, the better version last.
            self.title = []
            group.sink = lambda text, _: self.title.append(text)
        elif word in ("info", "pict", "upr", "shpinst", "do"):
            group.aside, group.sink = group.sink, None
        elif word == "ud" and group.sink is None:
            group.sink = group.aside
        elif word in ("listtext", "pntext"):
            group.sink = self._add_marker
        elif word == "field":
            group.field = Field()
            group.at_end = self._end_field
        elif word == "fldinst" and group.field is not None:
            group.sink = group.field.add
        elif word == "fldrslt" and group.field is not None:
            self._show_result(group, group.field)
        elif word in ("sn", "sv") and group.sink is None:
            self._open_property(group, word)
        else:
            return self._opens_story(word)
        return True

    def _end_table(self) -> None:
        self._table = None

    def _add_marker(self, text: str, _: Format) -> None:
        self._group.story.marker += text

    def _show_result(self, group: Group, known: Field) -> None:
        if known.is_page_number or known.replaces_result:
            group.story.has_page_number |= known.is_page_number
            group.sink = None
        elif target := known.target:
            group.form = replace(group.form, link=target)

    def _end_field(self) -> None:
        group = self._group
        if group.field is not None:
            self._put(group.field.shown)

    def _open_property(self, group: Group, word: str) -> None:
        """A property of a shape: its name, then its value. Few of them are text."""
        if word == "sn":
            self._property = []
            group.sink = lambda text, _: self._property.append(text)
            return
        value: list[str] = []
        aside = group.aside
        group.sink = lambda text, _: value.append(text)

        def end() -> None:
            name = "".join(self._property).strip()
            if aside is not None and name in ("wzDescription", "gtextUNICODE"):
                text = "".join(value)
                aside(image(text) if name == "wzDescription" else f" {text} ", PLAIN)

        group.at_end = end

    def _opens_story(self, word: str) -> bool:
        finish = {
            "footnote": self._add_note,
            "annotation": self._add_comment,
            "shptxt": self._add_box,
            "dptxbxtext": self._add_box,
        }.get(word)
        if word == "atnauthor":
            self._author = []
            self._group.sink = lambda text, _: self._author.append(text)
            return True
        if finish is None and word not in MARGINS:
            return False
        if self._group.story.depth >= _DEEPEST_STORY:
            return True  # its letters stay in the story around it
        around = self._group.story
        story = Story(self._sheet.style, has_headings=word in ("shptxt", "dptxbxtext"))
        story.depth = around.depth + 1
        group = self._group
        if word == "footnote":
            if len(self._notes) >= _MOST_NOTES:
                group.sink = None
                return True
            self._notes.append("")
            self._put(f"[^{len(self._notes)}]")
        place = len(self._notes)
        group.story, group.sink, group.form = story, story.add, PLAIN
        group.paragraph, group.field = Paragraph(), None

        def end() -> None:
            flow = story.finish(self._group.paragraph)
            if finish is None:
                self._add_margin(MARGINS[word], story, flow)
            else:
                finish(flow, around, place)

        group.at_end = end
        return True

    def _add_note(self, flow: Flow, around: Story, place: int) -> None:
        self._notes[place - 1] = flow.in_cell()

    def _add_comment(self, flow: Flow, around: Story, place: int) -> None:
        text, author = flow.in_cell(), one_line("".join(self._author))
        self._author = []
        if text:
            self._comments.append(f"{author}: {text}" if author else text)

    def _add_box(self, flow: Flow, around: Story, place: int) -> None:
        around.add_box(flow)

    def _add_margin(self, kind: str, story: Story, flow: Flow) -> None:
        text = flow.in_cell()
        # "Page of" is what is left of a page number without its digits.
        if text and not (story.has_page_number and len(text.split()) <= 2):
            self._margins[f"{kind}: {text}"] = None

    # Properties

    def _sets(self, word: str, number: int | None) -> bool:
        """Change what holds from here on."""
        group, is_on = self._group, number != 0
        if word in FORMATS:
            group.form = replace(group.form, **{FORMATS[word]: is_on})
        elif self._table is not None and self._table.set(word, number):
            pass
        elif word == "f":
            group.font = number or 0
        elif word == "plain":
            group.form = Format(link=group.form.link)
            group.is_hidden = group.is_deleted = False
            group.font = self._default_font
        elif word == "v":
            group.is_hidden = is_on
        elif word == "deleted":
            group.is_deleted = is_on
        elif word == "uc":
            group.fallbacks = min(10, max(0, 1 if number is None else number))
        elif word == "pard":
            group.paragraph = Paragraph()
        elif word in PARAGRAPHS:
            name, fixed = PARAGRAPHS[word]
            value = fixed if fixed is not None else max(0, number or 0)
            group.paragraph = replace(group.paragraph, **{name: value})
        elif word == "ls":
            group.paragraph = replace(group.paragraph, is_listed=bool(number))
        elif word in ("mac", "pc", "pca"):
            self._letters.use_page({"mac": 10000, "pc": 437, "pca": 850}[word])
        elif word == "ansicpg":
            self._letters.use_page(number or 0)
        elif word == "deff":
            self._default_font = group.font = number or 0
        elif group.field is not None and word in ("ffres", "ffdefres", "fftype"):
            group.field.settings[word] = number or 0
        else:
            return self._sets_row(word, number)
        return True

    def _sets_row(self, word: str, number: int | None) -> bool:
        story, depth = self._group.story, self._group.row_depth
        if word == "nesttableprops":
            self._group.row_depth = max(2, self._group.paragraph.depth)
        elif word == "trowd":
            story.define_row(depth)
        elif word == "cellx":
            story.define_cell(depth, number or 0)
        elif word == "clvmrg":
            story.edge(depth).is_below = True
        elif word == "clmrg":
            story.edge(depth).is_beside = True
        else:
            return False
        return True

    def _break(self, word: str) -> None:
        group = self._group
        if group.sink is None or group.sink != group.story.add:
            # Among what is gathered for elsewhere, a line's end is a blank.
            self._put(" ")
        elif word == "cell":
            group.story.end_cell(group.paragraph, 1)
        elif word == "nestcell":
            group.story.end_cell(group.paragraph, max(2, group.paragraph.depth))
        elif word == "row":
            group.story.end_row(group.paragraph, 1)
        elif word == "nestrow":
            group.story.end_row(group.paragraph, max(2, group.row_depth, group.paragraph.depth))
        elif group.is_deleted:
            self._put(" ")
        else:
            group.story.end_paragraph(group.paragraph)
