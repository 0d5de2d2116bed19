"""The formats that can be read: one table, from which the errors and the documentation are made.

Pure data and functions over it. What a file is, is told by convert/detect.py; who reads it stands here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

# How the bytes are packed, which decides what is checked before a reader sees them.
Packing = Literal["text", "zip", "ole", "own"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Format:
    file_type: str
    extensions: tuple[str, ...]
    description: str  # with its article: it completes "… could not be read as"
    packing: Packing = "text"
    # module:function in convert/read, run in the worker; "" is read in-process, from text alone.
    reader: str = ""
    language: str = ""  # of source code
    is_markdown: bool = False
    # A pattern of headings that stand in the text for lack of better ones: none is a document's title.
    made_headings: str = ""


# What spreadsheet programs call the sheets of a new workbook.
_SHEET_NAMES = (
    r"(?:sheet|tabelle|feuil(?:le)?|hoja|foglio|planilha|folha|blad|ark|arkusz|taul|taulukko|list|munka(?:lap)?|sayfa"
    r"|лист|аркуш|φύλλο|גיליון|ورقة|工作表|シート|시트) ?\d*(?: \(hidden sheet\))?"
)
_MAIL_HEADINGS = r"content|attachment: .*"
_SLIDE_HEADINGS = r"(?:hidden|untitled) slide"

TXT = Format(
    file_type="txt",
    extensions=(
        *(".txt", ".text", ".log", ".rst", ".rest", ".adoc", ".asciidoc", ".asc", ".org", ".textile"),
        *(".tex", ".latex", ".bib", ".wiki", ".mediawiki", ".pod", ".gmi", ".ics", ".vcf", ".nfo"),
    ),
    description="plain text",
)
MARKDOWN = Format(
    file_type="md",
    extensions=(".md", ".markdown", ".mdown", ".mkd", ".mdx", ".qmd", ".rmd"),
    description="Markdown",
    is_markdown=True,
)
HTML = Format(
    file_type="html",
    extensions=(".html", ".htm", ".xhtml", ".shtml"),
    description="a web page",
    reader="web:read",
)
PDF = Format(file_type="pdf", extensions=(".pdf",), description="a PDF", packing="own", reader="pdf:read")
DOCX = Format(
    file_type="docx",
    extensions=(".docx", ".docm", ".dotx", ".dotm"),
    description="a Word document",
    packing="zip",
    reader="word:read",
)
PPTX = Format(
    file_type="pptx",
    extensions=(".pptx", ".pptm", ".ppsx", ".ppsm", ".potx", ".potm"),
    description="a PowerPoint presentation",
    packing="zip",
    reader="slides:read",
    made_headings=_SLIDE_HEADINGS,
)
XLSX = Format(
    file_type="xlsx",
    extensions=(".xlsx", ".xlsm", ".xltx", ".xltm"),
    description="an Excel workbook",
    packing="zip",
    reader="sheets:read_xlsx",
    made_headings=_SHEET_NAMES,
)
XLS = Format(
    file_type="xls",
    extensions=(".xls", ".xlt"),
    description="an old Excel workbook",
    packing="ole",
    reader="sheets:read_xls",
    made_headings=_SHEET_NAMES,
)
ODT = Format(
    file_type="odt",
    extensions=(".odt", ".ott"),
    description="an OpenDocument text",
    packing="zip",
    reader="odf:read",
)
ODS = Format(
    file_type="ods",
    extensions=(".ods", ".ots"),
    description="an OpenDocument spreadsheet",
    packing="zip",
    reader="odf:read",
    made_headings=_SHEET_NAMES,
)
ODP = Format(
    file_type="odp",
    extensions=(".odp", ".otp"),
    description="an OpenDocument presentation",
    packing="zip",
    reader="odf:read",
    made_headings=_SLIDE_HEADINGS,
)
ODG = Format(
    file_type="odg",
    extensions=(".odg", ".otg"),
    description="an OpenDocument drawing",
    packing="zip",
    reader="odf:read",
)
ODF = (ODT, ODS, ODP, ODG)
FLAT_ODF = Format(
    file_type="fodt",
    extensions=(".fodt", ".fods", ".fodp", ".fodg"),
    made_headings=f"{_SHEET_NAMES}|{_SLIDE_HEADINGS}",
    description="an OpenDocument file in one piece",
    packing="own",
    reader="odf:read",
)
RTF = Format(
    file_type="rtf", extensions=(".rtf",), description="an RTF text", packing="own", reader="rtf:read"
)
EPUB = Format(
    file_type="epub", extensions=(".epub",), description="an EPUB book", packing="zip", reader="book:read"
)
EML = Format(
    file_type="eml",
    extensions=(".eml", ".mht", ".mhtml"),
    description="an e-mail message",
    packing="own",
    reader="mail:read_eml",
    made_headings=_MAIL_HEADINGS,
)
MSG = Format(
    file_type="msg",
    extensions=(".msg",),
    description="an Outlook message",
    packing="ole",
    reader="mail:read_msg",
    made_headings=_MAIL_HEADINGS,
)
IPYNB = Format(
    file_type="ipynb", extensions=(".ipynb",), description="a Jupyter notebook", reader="notebook:read"
)
CSV = Format(
    file_type="csv",
    extensions=(".csv", ".tsv", ".tab"),
    description="a table of comma-separated values",
    reader="delimited:read",
)
JSON = Format(
    file_type="json",
    extensions=(".json", ".jsonl", ".ndjson", ".geojson", ".jsonld", ".har", ".webmanifest"),
    description="JSON",
    reader="structured:read_json",
)
XML = Format(
    file_type="xml",
    extensions=(
        *(".xml", ".nxml", ".rss", ".atom", ".opml", ".xsd", ".xsl", ".xslt", ".svg", ".kml", ".gpx", ".fb2"),
        *(".tei", ".dbk", ".docbook", ".dita", ".ditamap", ".xbrl", ".ttml", ".plist", ".wsdl", ".xliff"),
    ),
    description="XML",
    reader="structured:read_xml",
)
SUBTITLES = Format(
    file_type="vtt",
    extensions=(".vtt", ".srt", ".sbv", ".ass", ".ssa", ".lrc"),
    description="subtitles",
    reader="subtitles:read",
)

# Language by its name in a Markdown fence.
_LANGUAGES: dict[str, tuple[str, ...]] = {
    "python": (".py", ".pyi", ".pyw"),
    "javascript": (".js", ".mjs", ".cjs"),
    "jsx": (".jsx",),
    "typescript": (".ts", ".mts", ".cts"),
    "tsx": (".tsx",),
    "vue": (".vue",),
    "svelte": (".svelte",),
    "java": (".java",),
    "kotlin": (".kt", ".kts"),
    "scala": (".scala", ".sc"),
    "groovy": (".groovy", ".gradle"),
    "clojure": (".clj", ".cljs", ".edn"),
    "c": (".c", ".h"),
    "cpp": (".cc", ".cpp", ".cxx", ".hh", ".hpp", ".hxx"),
    "csharp": (".cs",),
    "fsharp": (".fs", ".fsx"),
    "objectivec": (".m", ".mm"),
    "swift": (".swift",),
    "go": (".go",),
    "rust": (".rs",),
    "zig": (".zig",),
    "dart": (".dart",),
    "ruby": (".rb",),
    "perl": (".pl", ".pm"),
    "php": (".php",),
    "lua": (".lua",),
    "r": (".r",),
    "julia": (".jl",),
    "haskell": (".hs",),
    "ocaml": (".ml", ".mli"),
    "elixir": (".ex", ".exs"),
    "erlang": (".erl", ".hrl"),
    "lisp": (".lisp", ".el", ".scm"),
    "fortran": (".f", ".f90", ".f95"),
    "pascal": (".pas",),
    "vbnet": (".vb", ".vbs"),
    "bash": (".sh", ".bash", ".zsh", ".fish"),
    "powershell": (".ps1", ".psm1"),
    "batch": (".bat", ".cmd"),
    "sql": (".sql",),
    "graphql": (".graphql", ".gql"),
    "protobuf": (".proto",),
    "css": (".css",),
    "scss": (".scss", ".sass", ".less"),
    "yaml": (".yaml", ".yml"),
    "toml": (".toml",),
    "ini": (".ini", ".cfg", ".conf", ".properties", ".editorconfig"),
    "hcl": (".tf", ".hcl"),
    "dockerfile": (".dockerfile",),
    "makefile": (".mk",),
    "cmake": (".cmake",),
    "nix": (".nix",),
    "diff": (".diff", ".patch"),
    "asm": (".asm", ".s"),
}

DOCUMENTS: tuple[Format, ...] = (
    PDF,
    DOCX,
    PPTX,
    XLSX,
    XLS,
    ODT,
    ODS,
    ODP,
    ODG,
    FLAT_ODF,
    RTF,
    EPUB,
    HTML,
    MARKDOWN,
    TXT,
    EML,
    MSG,
    IPYNB,
    CSV,
    JSON,
    XML,
    SUBTITLES,
)
CODE: tuple[Format, ...] = tuple(
    Format(
        file_type=extensions[0].removeprefix("."),
        extensions=extensions,
        description=f"source code ({language})",
        language=language,
        is_markdown=True,
    )
    for language, extensions in _LANGUAGES.items()
)
BY_EXTENSION = {extension: entry for entry in (*DOCUMENTS, *CODE) for extension in entry.extensions}
BY_FILE_TYPE = {entry.file_type: entry for entry in (*DOCUMENTS, *CODE)}
# Files that are known by their whole name.
BY_NAME = {
    "makefile": BY_EXTENSION[".mk"],
    "dockerfile": BY_EXTENSION[".dockerfile"],
    "containerfile": BY_EXTENSION[".dockerfile"],
    "cmakelists.txt": BY_EXTENSION[".cmake"],
    "jenkinsfile": BY_EXTENSION[".groovy"],
    "gemfile": BY_EXTENSION[".rb"],
    "rakefile": BY_EXTENSION[".rb"],
}


def supported_extensions() -> tuple[str, ...]:
    return tuple(BY_EXTENSION)


def supported() -> str:
    """What can be read, for the end of an error's sentence."""
    documents = " ".join(extension for entry in DOCUMENTS for extension in entry.extensions)
    few = " ".join(entry.extensions[0] for entry in CODE[:4])
    return f"{documents} and source code ({few} …)"
