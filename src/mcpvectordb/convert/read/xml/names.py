"""What names of elements mean in XML that holds prose: JATS, DocBook, TEI, DITA, FictionBook, feeds, laws.

Data only. All names are in lower case and without their namespace; a name that several vocabularies use for
different things stands here for what it is in most of them.
"""

from __future__ import annotations


def _names(words: str) -> frozenset[str]:
    return frozenset(words.split())


# What a document whose root is named so is, whatever its elements are called.
PROSE_ROOTS = _names(
    "article book chapter section topic concept task tei tei.2 fictionbook rss feed rdf "
    "svg play akomantoso law bill act html tt part refentry dita"
)

HEADINGS = _names("title head heading article-title book-title bridgehead subj-title h")
# Here a title names a thing, not a part of the text.
UNTITLED = _names(
    "caption fig fig-group figure informalfigure table table-wrap informaltable example list "
    "itemizedlist orderedlist variablelist formalpara note tip warning important caution boxed-text "
    "procedure step supplementary-material image"
)
# A title within these is not the document's.
PARTS = _names(
    "sec section sect1 sect2 sect3 sect4 sect5 chapter div div1 div2 div3 body text item entry "
    "abstract back app appendix ref ref-list preface part figure fig table-wrap sub-article response "
    "topic journal-meta series monogr"
)

PARAGRAPHS = _names(
    "p para simpara para1 td th entry cell quote blockquote disp-quote epigraph attrib ab stage "
    "verse-line license-p subtitle sub-title shortdesc term def description summary content encoded "
    "text desc abstract annotation comment statement paragraph"
)
# Read in one line each: verse, and what a letterhead holds.
LINES = _names("l line v verse aff affiliation address")
CODE = _names("programlisting screen literallayout codeblock preformat pre synopsis eg code-block")
LISTS = _names(
    "list itemizedlist orderedlist simplelist variablelist def-list ul ol dl glosslist procedure "
    "substeps steps parml sl calloutlist qandaset"
)
ORDERED = _names("orderedlist ol procedure substeps steps")
TABLES = _names("table informaltable tgroup simpletable")
ROWS = _names("tr row strow sthead")
CELLS = _names("td th entry cell stentry")
CITATIONS = _names(
    "ref element-citation mixed-citation nlm-citation citation biblioentry bibliomixed bibl biblstruct"
)
FOOTNOTES = _names("fn footnote")
LABELS = _names("label num")
# In running text these break it.
BLOCKS = (
    _names(
        "p para simpara fig fig-group figure informalfigure table-wrap boxed-text disp-formula "
        "disp-formula-group disp-quote blockquote equation informalequation mediaobject example tip "
        "warning important caution sec section lg sp"
    )
    | LISTS
    | TABLES
    | CODE
)

# The letters of these stand as written; elsewhere, elements without text between them are words of their own.
GLUED = PARAGRAPHS | _names(
    "b i em strong bold italic emphasis hi sup sub superscript subscript span sc underline monospace "
    "tspan code mi mo mn mtext mrow msup msub msubsup mfrac math xref ext-link a ulink link tt u s "
    "strike title head label article-title named-content styled-content seg c w pc"
)
LINE_BREAKS = _names("br lb break")
NOTHING = _names("script style binary object-id namedview graphic media metadata")
