"""What a document means by the name of a charset. Pure: a name gives a codec, bytes and a codec give text.

One table for what servers, pages, XML and mail declare, so that none of them knows fewer names than another.
Names stand for what browsers take them for (encoding.spec.whatwg.org): pages name a standard and mean its
superset, and many of the names are none that Python knows.
"""

from __future__ import annotations

import codecs

_LABELS: dict[str, tuple[str, ...]] = {
    "cp1252": (
        *("iso-8859-1", "iso8859-1", "iso88591", "latin-1", "latin1", "l1", "cp819", "ibm819"),
        *("us-ascii", "ascii", "ansi", "ansi-x3.4-1968", "x-cp1252"),
    ),
    "cp1254": ("iso-8859-9", "iso8859-9", "iso88599", "latin5", "l5", "x-cp1254"),
    "cp874": ("iso-8859-11", "iso8859-11", "tis-620", "tis620", "windows-874", "dos-874"),
    "iso8859_8": ("iso-8859-8-i", "iso-8859-8-e", "csiso88598i", "csiso88598e", "logical", "visual"),
    "cp1251": ("x-cp1251",),
    "gb18030": ("gb2312", "gb-2312-80", "gbk", "x-gbk", "chinese", "cp936", "ms936", "windows-936"),
    "cp932": ("shift-jis", "shiftjis", "sjis", "s-jis", "x-sjis", "ms-kanji", "ms932", "windows-31j"),
    "euc_jp": ("x-euc-jp", "x-euc", "eucjp"),
    "cp949": (
        *("euc-kr", "euckr", "ks-c-5601-1987", "ks-c-5601-1989", "ksc5601", "ksc-5601", "korean"),
        *("windows-949", "ms949"),
    ),
    "big5hkscs": ("big5", "big5-hkscs", "cn-big5", "x-x-big5", "csbig5"),
    "hz": ("hz-gb-2312", "hz-gb2312"),
    "koi8_r": ("koi", "koi8"),
    "koi8_u": ("koi8-ru",),
    "mac_roman": ("macintosh", "mac", "x-mac-roman"),
    "mac_cyrillic": ("x-mac-cyrillic", "x-mac-ukrainian"),
    "utf-8": ("utf8mb3", "utf8mb4", "unicode-1-1-utf-8"),
    # Without a mark, as browsers do.
    "utf-16-le": ("utf-16", "utf16", "ucs-2", "unicode", "iso-10646-ucs-2", "csunicode"),
    "utf-32-le": ("utf-32", "utf32", "ucs-4", "iso-10646-ucs-4"),
}
_MEANT = {label: codec for codec, labels in _LABELS.items() for label in labels}
# Codecs of Python that no document is in. UTF-7 is in mail, and elsewhere only in attacks.
_NOT_OF_DOCUMENTS = frozenset(
    {"idna", "punycode", "undefined", "unicode-escape", "raw-unicode-escape", "mbcs", "oem", "utf-7"}
)
_LONGEST = 60


def codec_of(label: str) -> str:
    """Python's name for a charset as a document declares it; "" for none that a document can be in."""
    name = label.strip(" \t\"'").lower().replace("_", "-")
    if len(name) > _LONGEST or not name.isascii() or "\0" in name:
        return ""
    try:
        codec = codecs.lookup(_MEANT.get(name, name)).name
    except LookupError:
        return ""
    return "" if codec in _NOT_OF_DOCUMENTS else codec


def is_seven_bit(codec: str) -> bool:
    """True for letters made of plain ASCII bytes: valid UTF-8 proves nothing against those."""
    return codec.startswith(("iso2022", "hz"))


def is_wide(codec: str) -> bool:
    return codec.startswith(("utf-16", "utf-32"))


def strictly(data: bytes, codec: str) -> str | None:
    """The text; None if the bytes are not in this codec, or if there is no such codec for text."""
    try:
        text = data.decode(codec)
        if codec != "utf-8":  # a copy of a long text, for nothing
            text.encode("utf-8")  # lone surrogates come out of some codecs
    except (ValueError, LookupError):  # UnicodeError is a ValueError
        return None
    return text
