"""The control words of RTF that matter to its text. Data only."""

from __future__ import annotations

SIGNS = {
    "tab": "\t",
    "line": "\n",
    "lbr": "\n",
    "emdash": "—",
    "endash": "–",
    "bullet": "•",
    "lquote": "‘",
    "rquote": "’",
    "ldblquote": "“",
    "rdblquote": "”",
    "emspace": " ",
    "enspace": " ",
    "qmspace": " ",
    "column": " ",
    "zwj": "\u200d",
    "zwnj": "\u200c",
}
BREAKS = frozenset({"par", "sect", "page", "cell", "nestcell", "row", "nestrow"})
FORMATS = {"b": "is_bold", "i": "is_italic", "strike": "is_struck", "striked": "is_struck"}
# The field of Paragraph, and its value where the word says it without a number.
PARAGRAPHS: dict[str, tuple[str, int | bool | None]] = {
    "s": ("style", None),
    "outlinelevel": ("outline", None),
    "intbl": ("is_in_table", True),
    "itap": ("nesting", None),
    "ilvl": ("level", None),
    "li": ("indent", None),
}
MARGINS = {
    **{f"header{kind}": "Header" for kind in ("", "l", "r", "f")},
    **{f"footer{kind}": "Footer" for kind in ("", "l", "r", "f")},
}
# Words that send the letters of their group somewhere else.
OPENING = frozenset(
    {"fonttbl", "stylesheet", "title", "info", "pict", "upr", "ud", "shpinst", "do", "sn", "sv", "listtext"}
    | {"pntext", "field", "fldinst", "fldrslt", "footnote", "annotation", "atnauthor", "shptxt", "dptxbxtext"}
    | MARGINS.keys()
)
# Words that change what holds from there on.
SETTING = frozenset(
    {
        "f",
        "plain",
        "v",
        "deleted",
        "uc",
        "pard",
        "ls",
        "mac",
        "pc",
        "pca",
        "ansicpg",
        "deff",
        "fcharset",
        "cpg",
    }
    | {"cs", "ts", "ds", "sbasedon", "ffres", "ffdefres", "fftype", "nesttableprops", "trowd", "cellx"}
    | {"clvmrg", "clmrg"}
    | FORMATS.keys()
    | PARAGRAPHS.keys()
)
# Groups that hold no text of the document, or hold it a second time for older programs.
IGNORED = frozenset(
    {"colortbl", "filetbl", "nonshppict", "shprslt", "nonesttables", "objdata", "themedata", "datastore"}
    | {"colorschememapping", "latentstyles", "xe", "rxe", "txe", "tc", "tcn", "bkmkstart", "bkmkend", "pn"}
    | {"listtable", "listoverridetable", "revtbl", "rsidtbl", "generator", "htmltag", "mhtmltag", "xmlnstbl"}
    | {"ftnsep", "ftnsepc", "ftncn", "aftnsep", "aftnsepc", "aftncn", "atnid", "atnref", "atndate", "atntime"}
    | {"atrfstart", "atrfend", "objclass", "objname", "panose", "falt", "fontemb", "fontfile", "blipuid"}
    | {
        "background",
        "ffname",
        "ffdeftext",
        "ffhelptext",
        "ffstattext",
        "ffentrymcr",
        "ffexitmcr",
        "wgrffmtfilter",
    }
    | {"datafield", "ffl", "atnparent", "atnicn", "objalias", "objtopic", "ebcstart", "ebcend"}
)
# Optional groups that are read as if they were not there.
TRANSPARENT = frozenset({"shppict", "picprop", "formfield", "moMath", "moMathPara", "mmath"})
# What a formula's parts are joined by.
MATH = {"msup": "^", "msub": "_", "mden": "/"}
