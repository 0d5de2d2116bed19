"""What a fetched document is called, and what its letters are: by its content, its headers, its address.

Pure. A server's word on the type is a hint: error pages come as PDFs, PDFs as octet streams, Markdown as
plain text. Binary content speaks for itself later on; here a name is found whose extension lets the
converter do the right thing among texts.
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from email.message import Message
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

from mcpvectordb.charsets import codec_of, is_seven_bit, is_wide, strictly

from .values import Fetched

# Types that mean one format: the extensions that fit, the usual one first. A path's own extension stays
# if it fits, for it may be more exact (a notebook is JSON).
_BY_TYPE = {
    "text/html": (".html", ".htm", ".xhtml"),
    "application/xhtml+xml": (".html", ".htm", ".xhtml"),
    "text/markdown": (".md", ".markdown", ".mdown", ".mkd", ".qmd", ".mdx"),
    "text/x-markdown": (".md", ".markdown", ".mdown", ".mkd", ".qmd", ".mdx"),
    "text/x-rst": (".rst",),
    "text/csv": (".csv",),
    "text/tab-separated-values": (".tsv", ".tab"),
    "application/json": (".json", ".ipynb", ".geojson", ".jsonl", ".ndjson", ".webmanifest"),
    "application/x-ipynb+json": (".ipynb",),
    "application/ld+json": (".json", ".jsonld"),
    "application/x-ndjson": (".jsonl", ".ndjson"),
    "application/yaml": (".yaml", ".yml"),
    "text/yaml": (".yaml", ".yml"),
    "application/xml": (".xml", ".xhtml", ".rss", ".atom", ".svg", ".xsd", ".xsl", ".opml", ".fb2"),
    "text/xml": (".xml", ".xhtml", ".rss", ".atom", ".svg", ".xsd", ".xsl", ".opml", ".fb2"),
    "application/rss+xml": (".xml", ".rss"),
    "application/atom+xml": (".xml", ".atom"),
    "application/rtf": (".rtf",),
    "text/rtf": (".rtf",),
    "message/rfc822": (".eml", ".mht", ".mhtml"),
    "application/pdf": (".pdf",),
    "application/msword": (".doc", ".dot", ".rtf"),
    "application/vnd.ms-excel": (".xls", ".xlsx", ".csv"),
    "application/vnd.ms-powerpoint": (".ppt", ".pps"),
    "application/vnd.ms-outlook": (".msg",),
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": (".docx", ".docm"),
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": (".xlsx", ".xlsm"),
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": (".pptx", ".ppsx"),
    "application/vnd.oasis.opendocument.text": (".odt",),
    "application/vnd.oasis.opendocument.spreadsheet": (".ods",),
    "application/vnd.oasis.opendocument.presentation": (".odp",),
    "application/epub+zip": (".epub",),
}
_PAGES = ("text/html", "application/xhtml+xml")
# What runs on the server says nothing about what it sends.
_SCRIPTS = frozenset({".php", ".asp", ".aspx", ".jsp", ".jspx", ".cgi", ".do", ".action", ".ashx", ".cfm"})

_BINARY = (
    b"PK\x03\x04",
    b"PK\x05\x06",
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
    b"\x89PNG\r\n",
    b"\xff\xd8\xff",
    b"GIF8",
    b"\x1f\x8b",
)
_PDF = re.compile(rb"\s{0,8}%PDF-\d")
_BOMS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)
_HTML_START = re.compile(
    rb"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html|head|body)\b", re.I | re.S
)
_TAG = re.compile(rb"<(?:[A-Za-z][^<>]*|/[A-Za-z][^<>]*|!--.*?--)>", re.S)
_SAMPLE_BYTES = 65_536

# "2101.00001" and "release-1.2" have no extension.
_EXTENSION = re.compile(r"\.(?=[^.]*[A-Za-z])[A-Za-z0-9_+-]{1,12}")
_TYPE = re.compile(r"\s*([\w.+-]+/[\w.+-]+)\s*(?:[;,]|$)", re.A)
_CHARSET = re.compile(r""";\s*charset\s*=\s*["']?([\w.:-]+)""", re.I | re.A)
_EXTENDED_NAME = re.compile(r"""filename\*\s*=\s*"?([\w-]+)'[^']*'([^;"\s]+)""", re.I | re.A)
_NOT_IN_NAMES = re.compile(r'[<>:"|?*]')
_DEVICES = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\.|$)", re.I)
_MOST_CHARS = 120


def content_type(header: str) -> tuple[str, str]:
    """Type and charset of a Content-Type header, in lower case; "" for what it does not say."""
    found, charset = _TYPE.match(header), _CHARSET.search(header)
    return (found[1].lower() if found else "", charset[1].lower() if charset else "")


def file_name(disposition: str, final_url: str) -> str:
    """The name in a Content-Disposition header, else the last part of the address; "" for neither."""
    path = urlsplit(final_url).path.rstrip("/").rsplit("/", 1)[-1]
    return _harmless(_disposed(disposition)) or _harmless(unquote(path, errors="replace"))


def effective_name(fetched: Fetched) -> str:
    """The file name with the extension by which the converter should know the document."""
    data, declared = fetched.data, fetched.content_type
    name = fetched.file_name or "index"
    if _PDF.match(data):
        return _fitted(name, (".pdf",))
    if _is_binary(data, fetched.charset):
        return _fitted(name, _BY_TYPE.get(declared, ()) if declared not in _PAGES else ())
    head = _sample(data, fetched.charset)
    # An error page is an error page, whatever it was promised as.
    if _HTML_START.match(head):
        return _fitted(name, _BY_TYPE["text/html"])
    # And a text without a single tag is no page: servers send README and LICENSE as one.
    if declared in _BY_TYPE and not (declared in _PAGES and not _TAG.search(head)):
        return _fitted(name, _BY_TYPE[declared])
    extension = _extension(name)
    if declared in _PAGES and extension in (*_SCRIPTS, *_BY_TYPE["text/html"]):
        return name[: -len(extension)] + ".txt"
    return name if extension else f"{name}.txt"


def text_bytes(data: bytes, charset: str) -> bytes:
    """A text in UTF-8 if the charset declared for it is true and needed; else the data as it is.

    A byte order mark and valid UTF-8 win over any header, because they are there by nobody's mistake.
    """
    codec = codec_of(charset)
    if not codec or data.startswith(_BOMS) or _PDF.match(data) or data.startswith(_BINARY):
        return data
    has_zeros = b"\x00" in data
    if has_zeros and not is_wide(codec):
        return data
    # Neither wide letters with zeros nor 7-bit ones are UTF-8 just because they pass for it.
    if not has_zeros and not is_seven_bit(codec) and strictly(data, "utf-8") is not None:
        return data
    text = strictly(data, codec)
    return data if text is None else text.encode("utf-8")


def _sample(data: bytes, charset: str) -> bytes:
    """The first letters of a text, in UTF-8 without a mark."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data[:_SAMPLE_BYTES].decode("utf-16", "ignore").encode("utf-8", "ignore")
    return text_bytes(data, charset)[:_SAMPLE_BYTES].removeprefix(codecs.BOM_UTF8)


def _is_binary(data: bytes, charset: str) -> bool:
    if data.startswith(_BINARY):
        return True
    may_hold_zeros = data.startswith(_BOMS) or is_wide(codec_of(charset))
    return b"\x00" in data[:_SAMPLE_BYTES] and not may_hold_zeros


def _extension(name: str) -> str:
    suffix = PurePosixPath(name).suffix
    return suffix.lower() if _EXTENSION.fullmatch(suffix) else ""


def _fitted(name: str, fitting: tuple[str, ...]) -> str:
    extension = _extension(name)
    if not fitting or extension in fitting:
        return name
    stem = name[: -len(extension)] if extension in _SCRIPTS else name
    return stem + fitting[0]


def _disposed(header: str) -> str:
    extended = _EXTENDED_NAME.search(header)
    if extended:
        try:
            return unquote(extended[2], encoding=extended[1], errors="strict")
        except (LookupError, UnicodeError):  # an unknown or untrue charset; the plain name may be there
            header = _EXTENDED_NAME.sub("", header)
    message = Message()
    # Folding has no place in a name, and the parser of mail minds it.
    message["content-disposition"] = re.sub(r"[\r\n]+", " ", header)
    return message.get_filename("") if header else ""


def _harmless(name: str) -> str:
    """A name that is only a name on every system: no folders, no controls, nothing that hides or reverses."""
    name = unicodedata.normalize("NFC", name).replace("\\", "/").rstrip("/").rsplit("/", 1)[-1]
    name = "".join(char for char in name if unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Co", "Cn"))
    name = re.sub(r"\s+", " ", _NOT_IN_NAMES.sub("_", name)).strip(" .")
    if _DEVICES.match(name):
        name = f"_{name}"
    if len(name) > _MOST_CHARS:
        extension = _extension(name)
        name = name[: _MOST_CHARS - len(extension)].rstrip(" .") + extension
    return name
