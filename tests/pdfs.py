"""Real PDFs for the tests, written by hand: text at positions, rules, images, notes, fields, outlines, RC4.

Just enough of the format for pdfium to open it as it opens any other file. A page is drawn in the order of
its calls, which is the order of its content stream, so a test decides what a reader has to put right.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field

WIDTH, HEIGHT = 612, 792  # US Letter, in points
FONTS = {
    "regular": b"/Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding",
    "bold": b"/Type /Font /Subtype /Type1 /BaseFont /Helvetica-Bold /Encoding /WinAnsiEncoding",
    "mono": b"/Type /Font /Subtype /Type1 /BaseFont /Courier /Encoding /WinAnsiEncoding",
}
_PADDING = bytes.fromhex("28BF4E5E4E758A4164004E56FFFA01082E2E00B6D0683E802F0CA9FE6453697A")


@dataclass
class Page:
    """The content of one page; every method returns the page, so that calls chain."""

    rotate: int = 0
    operators: list[bytes] = field(default_factory=list)
    annotations: list[bytes] = field(default_factory=list)
    appearances: dict[int, bytes] = field(default_factory=dict)  # of annotations, by their place in the list
    used: dict[str, int] = field(default_factory=dict)  # characters of the "unicode" and "drawn" fonts
    has_image: bool = False

    def text(self, x: float, y: float, text: str, size: float = 10, font: str = "regular") -> Page:
        return self.turned_text((1, 0, 0, 1, x, y), text, size, font)

    def invisible_text(self, x: float, y: float, text: str, size: float = 10) -> Page:
        self.operators.append(b"3 Tr")
        self.text(x, y, text, size)
        self.operators.append(b"0 Tr")
        return self

    def turned_text(
        self, matrix: Sequence[float], text: str, size: float = 10, font: str = "regular"
    ) -> Page:
        if font in ("unicode", "drawn"):
            codes = [self.used.setdefault(character, len(self.used) + 1) for character in text]
            digits = b"%04X" if font == "unicode" else b"%02X"
            shown = b"<" + b"".join(digits % code for code in codes) + b">"
        else:
            shown = _string(text.encode("cp1252"))
        place = " ".join(f"{number:g}" for number in matrix).encode()
        self.operators.append(b"BT /%s %g Tf %s Tm %s Tj ET" % (font.encode(), size, place, shown))
        return self

    def lines(
        self,
        x: float,
        y: float,
        lines: Sequence[str],
        size: float = 10,
        pitch: float = 12,
        font: str = "mono",
    ) -> Page:
        for index, line in enumerate(lines):
            self.text(x, y - index * pitch, line, size, font)
        return self

    def rule(self, x0: float, y0: float, x1: float, y1: float) -> Page:
        self.operators.append(b"0.5 w %g %g m %g %g l S" % (x0, y0, x1, y1))
        return self

    def box(self, x0: float, y0: float, x1: float, y1: float) -> Page:
        self.operators.append(b"0.5 w %g %g %g %g re S" % (x0, y0, x1 - x0, y1 - y0))
        return self

    def grid(self, xs: Sequence[float], ys: Sequence[float]) -> Page:
        for x in xs:
            self.rule(x, ys[0], x, ys[-1])
        for y in ys:
            self.rule(xs[0], y, xs[-1], y)
        return self

    def image(self, x: float = 0, y: float = 0, width: float = WIDTH, height: float = HEIGHT) -> Page:
        self.has_image = True
        self.operators.append(b"q %g 0 0 %g %g %g cm /picture Do Q" % (width, height, x, y))
        return self

    def note(self, text: str, subtype: str = "Text") -> Page:
        appearance = b" /DA (/Helv 10 Tf)" if subtype == "FreeText" else b""
        self.annotations.append(
            b"/Type /Annot /Subtype /%s /Rect [500 500 600 600] /Contents %s%s"
            % (subtype.encode(), _unicode(text), appearance)
        )
        return self

    def stamp(self, lines: Sequence[str], kind: str = "Stamp", x: float = 300, y: float = 300) -> Page:
        """An annotation that looks as drawn here: a stamp, or a signature (kind "Sig")."""
        shown = b" T* ".join(b"%s Tj" % _string(line.encode("cp1252")) for line in lines)
        self.appearances[len(self.annotations)] = b"BT /regular 10 Tf 12 TL 5 80 Td %s ET" % shown
        subtype = b"/Widget /FT /Sig /T (signed)" if kind == "Sig" else b"/%s" % kind.encode()
        self.annotations.append(
            b"/Type /Annot /Subtype %s /F 4 /Rect [%g %g %g %g]" % (subtype, x, y, x + 200, y + 100)
        )
        return self

    def field(self, name: str, value: str, kind: str = "Tx") -> Page:
        state = b"/V %s /DV (unused)" % _unicode(value)
        if kind == "Btn":
            state = b"/V /%s /AS /%s" % (value.encode(), value.encode())
        self.annotations.append(
            b"/Type /Annot /Subtype /Widget /FT /%s /T %s %s /Rect [100 100 300 120] /DA (/Helv 10 Tf)"
            % (kind.encode(), _unicode(name), state)
        )
        return self


def pdf(
    *pages: Page,
    title: str = "",
    raw_title: bytes = b"",
    outline: Sequence[tuple[str, int]] = (),
    attachments: Sequence[str] = (),
    user_password: str | None = None,
    owner_password: str = "owner",
) -> bytes:
    """The file. With a user_password (which may be "") it is encrypted with 40-bit RC4."""
    return _File(pages, title, raw_title, outline, attachments, user_password, owner_password).written()


class _File:
    def __init__(
        self,
        pages: Sequence[Page],
        title: str,
        raw_title: bytes,
        outline: Sequence[tuple[str, int]],
        attachments: Sequence[str],
        user_password: str | None,
        owner_password: str,
    ) -> None:
        self.objects: list[bytes] = []
        self.streams: dict[int, bytes] = {}
        self.cipher = _Cipher(user_password, owner_password) if user_password is not None else None
        tree, catalog = self.add(b""), self.add(b"")
        fonts = b" ".join(b"/%s %d 0 R" % (name.encode(), self.add(font)) for name, font in FONTS.items())
        picture = self.add(
            b"/Type /XObject /Subtype /Image /Width 8 /Height 8 /ColorSpace /DeviceGray /BitsPerComponent 8",
            bytes(range(64)),
        )
        fields: list[int] = []
        kids = [self.page(page, tree, fonts, picture, fields) for page in pages]
        self.objects[tree - 1] = b"/Type /Pages /Count %d /Kids [%s]" % (len(kids), _references(kids))
        root = b"/Type /Catalog /Pages %d 0 R" % tree
        if fields:
            form = self.add(b"/Fields [%s] /DR << /Font << >> >>" % _references(fields))
            root += b" /AcroForm %d 0 R" % form
        if outline:
            root += b" /Outlines %d 0 R" % self.outline(outline, kids)
        if attachments:
            named = b" ".join(b"%s %d 0 R" % (_unicode(name), self.attachment(name)) for name in attachments)
            root += b" /Names << /EmbeddedFiles << /Names [%s] >> >>" % named
        self.objects[catalog - 1] = root
        self.trailer = b"/Root %d 0 R" % catalog
        if title or raw_title:
            written = raw_title or _unicode(title)
            self.trailer += b" /Info %d 0 R" % self.add(b"/Title " + written)
        if self.cipher is not None:
            # Its own strings are never encrypted: they are what the key is made of.
            self.trailer += b" /Encrypt %d 0 R /ID [%s %s]" % (
                self.add(self.cipher.dictionary),
                _hex(self.cipher.identity),
                _hex(self.cipher.identity),
            )

    def add(self, dictionary: bytes, stream: bytes | None = None) -> int:
        self.objects.append(dictionary)
        if stream is not None:
            self.streams[len(self.objects)] = stream
        return len(self.objects)

    def page(self, page: Page, tree: int, fonts: bytes, picture: int, fields: list[int]) -> int:
        resources = b"/Font << %s" % fonts
        if page.used:
            resources += b" /unicode %d 0 R" % self.unicode_font(page.used)
            resources += b" /drawn %d 0 R" % self.drawn_font(page.used)
        resources += b" >>"
        if page.has_image:
            resources += b" /XObject << /picture %d 0 R >>" % picture
        content = self.add(b"/Filter /FlateDecode", zlib.compress(b"\n".join(page.operators)))
        notes = [
            self.add(annotation + self.appearance(page.appearances.get(index), fonts))
            for index, annotation in enumerate(page.annotations)
        ]
        fields += [number for number in notes if b"/Widget" in self.objects[number - 1]]
        return self.add(
            b"/Type /Page /Parent %d 0 R /MediaBox [0 0 %d %d] /Rotate %d /Resources << %s >>"
            b" /Contents %d 0 R /Annots [%s]"
            % (tree, WIDTH, HEIGHT, page.rotate, resources, content, _references(notes))
        )

    def appearance(self, drawn: bytes | None, fonts: bytes) -> bytes:
        if drawn is None:
            return b""
        form = b"/Type /XObject /Subtype /Form /BBox [0 0 200 100] /Resources << /Font << %s >> >>" % fonts
        return b" /AP << /N %d 0 R >>" % self.add(form, drawn)

    def unicode_font(self, used: dict[str, int]) -> int:
        """A font of any characters: its codes are numbered as they are used, and mapped back."""
        mapping = self.mapping(used, b"%04X")
        descriptor = self.add(
            b"/Type /FontDescriptor /FontName /Any /Flags 4 /FontBBox [0 -200 1000 800] /ItalicAngle 0"
            b" /Ascent 800 /Descent -200 /CapHeight 700 /StemV 80"
        )
        descendant = self.add(
            b"/Type /Font /Subtype /CIDFontType2 /BaseFont /Any /DW 600 /FontDescriptor %d 0 R"
            b" /CIDSystemInfo << /Registry (Adobe) /Ordering (Identity) /Supplement 0 >>" % descriptor
        )
        return self.add(
            b"/Type /Font /Subtype /Type0 /BaseFont /Any /Encoding /Identity-H /ToUnicode %d 0 R"
            b" /DescendantFonts [%d 0 R]" % (mapping, descendant)
        )

    def drawn_font(self, used: dict[str, int]) -> int:
        """A font whose letters are drawings (squares, here), and can stand alone."""
        square = self.add(b"", b"800 0 0 0 700 700 d1 0 0 700 700 re f")
        last = max(used.values())
        names = [b"/g%d" % code for code in range(1, last + 1)]
        return self.add(
            b"/Type /Font /Subtype /Type3 /FontBBox [0 0 700 700] /FontMatrix [0.001 0 0 0.001 0 0]"
            b" /FirstChar 1 /LastChar %d /Widths [%s] /Encoding << /Differences [1 %s] >>"
            b" /CharProcs << %s >> /ToUnicode %d 0 R"
            % (
                last,
                b"800 " * last,
                b" ".join(names),
                b" ".join(b"%s %d 0 R" % (name, square) for name in names),
                self.mapping(used, b"%02X"),
            )
        )

    def mapping(self, used: dict[str, int], digits: bytes) -> int:
        """From codes back to characters."""
        rows = b"\n".join(
            b"<%s> <%s>" % (digits % code, character.encode("utf-16-be").hex().upper().encode())
            for character, code in used.items()
        )
        whole = digits % 0, digits % (256 ** (2 if digits == b"%04X" else 1) - 1)
        return self.add(
            b"",
            b"/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /M def /CMapType 2 def\n"
            b"1 begincodespacerange <%s> <%s> endcodespacerange\n%d beginbfchar\n%s\nendbfchar\n"
            b"endcmap end end" % (*whole, len(used), rows),
        )

    def attachment(self, name: str) -> int:
        content = self.add(b"/Type /EmbeddedFile", b"inside")
        return self.add(
            b"/Type /Filespec /F %s /UF %s /EF << /F %d 0 R >>" % (_unicode(name), _unicode(name), content)
        )

    def outline(self, entries: Sequence[tuple[str, int]], kids: Sequence[int]) -> int:
        root = self.add(b"")
        first = len(self.objects) + 1
        last = first + len(entries) - 1
        for number, (name, page) in enumerate(entries, first):
            links = b" /Prev %d 0 R" % (number - 1) if number > first else b""
            links += b" /Next %d 0 R" % (number + 1) if number < last else b""
            self.add(
                b"/Title %s /Parent %d 0 R /Dest [%d 0 R /Fit]%s"
                % (_unicode(name), root, kids[page - 1], links)
            )
        self.objects[root - 1] = b"/Type /Outlines /First %d 0 R /Last %d 0 R /Count %d" % (
            first,
            last,
            len(entries),
        )
        return root

    def written(self) -> bytes:
        out = bytearray(b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n")
        offsets: list[int] = []
        for number, dictionary in enumerate(self.objects, 1):
            offsets.append(len(out))
            out += b"%d 0 obj\n" % number
            stream = self.streams.get(number)
            if stream is None:
                out += b"<< %s >>\n" % self.encrypted_strings(number, dictionary)
            else:
                stream = self.cipher.apply(number, stream) if self.cipher else stream
                out += b"<< %s /Length %d >>\nstream\n%s\nendstream\n" % (dictionary, len(stream), stream)
            out += b"endobj\n"
        start = len(out)
        out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(offsets) + 1)
        out += b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
        out += b"trailer\n<< /Size %d %s >>\nstartxref\n%d\n%%%%EOF\n" % (
            len(offsets) + 1,
            self.trailer,
            start,
        )
        return bytes(out)

    def encrypted_strings(self, number: int, dictionary: bytes) -> bytes:
        """Only the title is a string that a test of encryption looks at; it is written in hexadecimal."""
        if self.cipher is None or not dictionary.startswith(b"/Title <"):
            return dictionary
        value = bytes.fromhex(dictionary[len(b"/Title <") : dictionary.index(b">")].decode())
        return b"/Title " + _hex(self.cipher.apply(number, value))


class _Cipher:
    """The standard security handler, revision 2: PDF 32000-1, algorithms 1 to 4."""

    def __init__(self, user_password: str, owner_password: str) -> None:
        self.identity = hashlib.md5(b"identity", usedforsecurity=False).digest()
        permissions = (-4).to_bytes(4, "little", signed=True)
        owner_key = hashlib.md5(_padded(owner_password), usedforsecurity=False).digest()[:5]
        owner = _rc4(owner_key, _padded(user_password))
        self.key = hashlib.md5(
            _padded(user_password) + owner + permissions + self.identity, usedforsecurity=False
        ).digest()[:5]
        user = _rc4(self.key, _PADDING)
        self.dictionary = b"/Filter /Standard /V 1 /R 2 /P -4 /O %s /U %s" % (_hex(owner), _hex(user))

    def apply(self, number: int, data: bytes) -> bytes:
        key = self.key + number.to_bytes(3, "little") + b"\0\0"
        return _rc4(hashlib.md5(key, usedforsecurity=False).digest()[:10], data)


def _padded(password: str) -> bytes:
    return (password.encode("latin-1") + _PADDING)[:32]


def _rc4(key: bytes, data: bytes) -> bytes:
    state = list(range(256))
    j = 0
    for i in range(256):
        j = (j + state[i] + key[i % len(key)]) % 256
        state[i], state[j] = state[j], state[i]
    out = bytearray()
    i = j = 0
    for byte in data:
        i = (i + 1) % 256
        j = (j + state[i]) % 256
        state[i], state[j] = state[j], state[i]
        out.append(byte ^ state[(state[i] + state[j]) % 256])
    return bytes(out)


def _string(data: bytes) -> bytes:
    return b"(%s)" % data.replace(b"\\", b"\\\\").replace(b"(", b"\\(").replace(b")", b"\\)")


def _unicode(text: str) -> bytes:
    return _hex(b"\xfe\xff" + text.encode("utf-16-be"))


def _hex(data: bytes) -> bytes:
    return b"<%s>" % data.hex().upper().encode()


def _references(numbers: Sequence[int]) -> bytes:
    return b" ".join(b"%d 0 R" % number for number in numbers)
