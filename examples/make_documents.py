"""Makes the Office files and the PDF of the demo, kept beside the texts: run it after changing them.

Nothing here is needed to run the demo.
"""

from __future__ import annotations

import ctypes
import zipfile
from pathlib import Path
from xml.sax.saxutils import escape

import openpyxl
import pptx
import pypdfium2
import pypdfium2.raw as pdfium

FOLDER = Path(__file__).parent / "documents"

LEASE = (
    (
        "Lease of the boathouse",
        "Between the Harbour Rowing Club and the Port Authority.",
        "The boathouse on the north quay is let for ten years from the first of May. The rent is 640 euros a",
        "month, due on the third working day. The club pays for water and heating; the authority insures",
        "the building against fire and storm.",
    ),
    (
        "Repairs",
        "The authority repairs the roof, the slipway and the quay wall. The club repairs doors, windows",
        "and everything it has built in. Damage by ice is the authority's, unless the gates were left open.",
    ),
    (
        "Ending the lease",
        "Either side may end the lease with notice of six months to the end of a year. If the rent is two",
        "months late, the authority may end it within four weeks. The club leaves the boathouse swept, with",
        "the racks in place and all keys handed over.",
    ),
)
SLIDES = (
    ("Membership campaign", ("Spring plan of the rowing club", "Presented to the board in February")),
    ("Where new members come from", ("Open days bring half of them", "The school project brings a third")),
    ("What we ask the board for", ("2,400 euros for two training boats", "A coach on Saturdays until June")),
)
NOTES = "If asked about juniors: the insurance covers them from the age of ten."
COSTS = (
    ("Item", "Supplier", "Euros", "Paid"),
    ("Rigging for the double scull", "Maris & Sons", 312.5, True),
    ("Varnish, 6 litres", "Harbour Paints", 118, True),
    ("Trailer inspection", "Dock Garage", 89, False),
)
HOURS = (("Boat", "Hours"), ("Heron", 41), ("Kingfisher", 18), ("Grebe", 63))

STYLED = '<w:p><w:pPr><w:pStyle w:val="{style}"/></w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>'
SAFETY = (
    ("Heading1", "Safety on the water"),
    ("Normal", "Nobody rows alone before sunrise. The launch goes out with every junior crew."),
    ("Heading2", "If a boat capsizes"),
    ("Normal", "Stay with the boat: it floats. Raise one arm, count the crew, and wait for the launch."),
    ("Heading2", "Cold water"),
    ("Normal", "Below ten degrees everybody wears a life jacket, and no crew goes past the lighthouse."),
)
TYPES = (
    '<?xml version="1.0" encoding="UTF-8"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/'
    'content-types"><Default Extension="rels" ContentType="application/vnd.openxmlformats-package.'
    'relationships+xml"/><Default Extension="xml" ContentType="application/xml"/><Override PartName="/word/'
    'document.xml" ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.document.'
    'main+xml"/><Override PartName="/word/styles.xml" ContentType="application/vnd.openxmlformats-'
    'officedocument.wordprocessingml.styles+xml"/></Types>'
)
RELATIONS = (
    '<?xml version="1.0" encoding="UTF-8"?><Relationships xmlns="http://schemas.openxmlformats.org/package/2006/'
    'relationships"><Relationship Id="rId1" Type="http://schemas.openxmlformats.org/officeDocument/2006/'
    'relationships/{kind}" Target="{target}"/></Relationships>'
)
WORD = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'


def make_docx(path: Path) -> None:
    body = "".join(STYLED.format(style=style, text=escape(text)) for style, text in SAFETY)
    styles = "".join(
        f'<w:style w:type="paragraph" w:styleId="{name}"><w:name w:val="{label}"/></w:style>'
        for name, label in (("Normal", "Normal"), ("Heading1", "heading 1"), ("Heading2", "heading 2"))
    )
    parts = {
        "[Content_Types].xml": TYPES,
        "_rels/.rels": RELATIONS.format(kind="officeDocument", target="word/document.xml"),
        "word/_rels/document.xml.rels": RELATIONS.format(kind="styles", target="styles.xml"),
        "word/document.xml": f"<w:document {WORD}><w:body>{body}</w:body></w:document>",
        "word/styles.xml": f"<w:styles {WORD}>{styles}</w:styles>",
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            archive.writestr(zipfile.ZipInfo(name), text)


def make_xlsx(path: Path) -> None:
    book = openpyxl.Workbook()
    costs = book.worksheets[0]
    costs.title = "Costs"
    hours = book.create_sheet("Boat hours")
    for sheet, rows in ((costs, COSTS), (hours, HOURS)):
        for row in rows:
            sheet.append(row)
    book.properties.title = "Boathouse books"
    book.save(path)


def make_pptx(path: Path) -> None:
    show = pptx.Presentation()
    show.core_properties.title = "Membership campaign"
    for title, points in SLIDES:
        slide = show.slides.add_slide(show.slide_layouts[1])
        slide.shapes.title.text = title
        slide.placeholders[1].text = "\n".join(points)
    show.slides[1].notes_slide.notes_text_frame.text = NOTES
    show.save(str(path))


def make_pdf(path: Path) -> None:
    document = pypdfium2.PdfDocument.new()
    regular, bold = (
        pdfium.FPDFText_LoadStandardFont(document, name) for name in (b"Times-Roman", b"Times-Bold")
    )
    for heading, *lines in LEASE:
        page = document.new_page(595, 842)
        for number, (text, font, size) in enumerate(
            [(heading, bold, 18), *((line, regular, 11) for line in lines)]
        ):
            shape = pdfium.FPDFPageObj_CreateTextObj(document, font, size)
            letters = (text + "\0").encode("utf-16-le")
            pdfium.FPDFText_SetText(shape, ctypes.cast(letters, pdfium.FPDF_WIDESTRING))
            pdfium.FPDFPageObj_Transform(shape, 1, 0, 0, 1, 72, 760 - 16 * number - (14 if number else 0))
            pdfium.FPDFPage_InsertObject(page, shape)
        pdfium.FPDFPage_GenerateContent(page)
    document.save(path)


if __name__ == "__main__":
    make_docx(FOLDER / "safety.docx")
    make_xlsx(FOLDER / "boathouse-books.xlsx")
    make_pptx(FOLDER / "membership.pptx")
    make_pdf(FOLDER / "lease.pdf")
