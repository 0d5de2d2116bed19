"""Bytes to text, whatever common encoding they are in.

Pure: knows nothing of files, formats or names. It never guesses when the bytes say it themselves
(a mark, valid UTF-8), and it never returns text for binary content: that is None.
"""

from __future__ import annotations

import codecs
import re
import unicodedata

from mcpvectordb.charsets import codec_of, is_seven_bit, is_wide, strictly

# UTF-32 stands before UTF-16: its little-endian mark begins with UTF-16's.
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)

# Left to itself the detector picks code pages nobody has used since DOS. The order breaks ties:
# bytes that happen to pair up into Chinese or Japanese are rarer than any Russian is short.
_LEGACY = (
    "cp932",
    "gb18030",
    "cp949",
    "big5",
    "euc_jp",
    "cp1251",
    "koi8_r",
    "cp1253",
    "cp1255",
    "cp1256",
    "tis_620",
    "cp1252",
    "cp1254",
    "cp1250",
    "cp866",
)
_LATIN = ("cp1252", "cp1254", "cp1250")

# ISO 8859-2 differs from cp1250 in a few letters only (ą ľ ś š ť ź ž), too few for statistics. Read as cp1250
# they are signs within words, or the Polish ą in a language that is not Polish.
_NOT_CP1250 = re.compile(r"[^\W\d_][¦«¬±¶»ˇµ][^\W\d_]|[^\W\d_][¦±¶ˇ]|[¦±¶ˇ©®][^\W\d_]")
_NOT_POLISH = re.compile(r"[áčěířů]")
_C1 = re.compile(rb"[\x80-\x9f]")

# Some languages differ from Western ones in a few letters, too few for statistics too: the encoding, the
# letters beyond ASCII that the language has, and groups of them, of each of which it takes one to be sure.
_LANGUAGES: tuple[tuple[str, frozenset[str], tuple[str, ...]], ...] = tuple(
    (codec, frozenset(letters + letters.upper()), tuple(group + group.upper() for group in groups))
    for codec, letters, *groups in (
        ("cp1250", "áéíóöőúüű", "őű", "öü", "áíó"),  # Hungarian
        ("cp1250", "áéíóúýčďěňřšťůžäĺľŕô", "ěůšž", "áíý"),  # Czech, Slovak; ř is where the Faroese have ø
        ("cp1250", "čćđšž", "šž", "čćđ"),  # Croatian, Slovene
    )
)
_TURKISH = frozenset("çğıöşüâîûÇĞİÖŞÜÂÎÛ")
_TURKISH_ALONE = frozenset("ğışĞİŞ")
_LEAST_TURKISH = 3
# Hebrew letters stand where small Russian ones do, of which far more are vowels and hardly any the two that
# stand where Yod and Tav do.
_HEBREW = re.compile(rb"[\xe0-\xfa]")
_NOT_HEBREW = re.compile(rb"[\xc0-\xdf\xfb-\xff\x80-\x83\x8a-\x90\x9a\x9c-\x9f]")
_YOD_OR_TAV = re.compile(rb"[\xe9\xfa]")
_RUSSIAN_VOWEL = re.compile(rb"[\xe0\xe5\xe8\xee\xf3]")
_LEAST_HEBREW = 10

# Fewer accented letters than this say too little for statistics: cp1252 is then right far more often.
_FEW_ACCENTS = 14
_SAMPLE_BYTES = 65_536
_SAMPLE_CHARS = 20_000
_LEAST_SANE = 0.97
# UTF-16 whose other bytes pass for UTF-8 is Latin letters with a NUL beside each.
_LEAST_NULS = 0.25
# A log that a crash tore, a table out of a database: with so few bytes lost, it is text without them.
_MOST_STRAY_NULS = 0.01

_LEAST_WIDE = 64

# Backspace and escape stay out of the count: man pages and coloured logs are text.
_CONTROLS = re.compile(r"[\x00-\x07\x0e-\x1a\x1c-\x1f\x7f]")
_MOST_CONTROLS = 0.05

# What a page may say of its own encoding, in <meta charset>, <meta http-equiv> or <?xml encoding>.
_DECLARED = re.compile(
    rb"""<(?:meta|\?xml)\b[^>]{0,500}?\b(?:charset|encoding)\s*=\s*["']?\s*([\w.:-]+)""", re.I
)
_DECLARED_WITHIN_BYTES = 65_536  # some pages have all their styles and scripts in front of it
_HIGH = re.compile(rb"[\x80-\xff]+")
# Up to three accented letters in a word that is ASCII otherwise (Gr\xf6\xdfe): no Cyrillic, Greek, Hebrew or
# Chinese word is written like that.
_IN_WORD = re.compile(
    rb"(?<=[A-Za-z])[\xb1-\xff]{1,3}(?![\x80-\xff])|(?<![\x80-\xff])[\xb1-\xff]{1,3}(?=[A-Za-z])"
)
# Japanese as Windows and Excel write it: the signs of its syllables, its commas, stops and long vowels. Their
# second byte may be an ASCII letter, so that a word looks like one with an accent in every other place.
_KANA = re.compile(rb"\x82[\x9f-\xf1]|\x83[\x40-\x96]|\x81[\x40-\x5b\x75-\x7a]")
_LEAST_KANA = 2


def decode(data: bytes, charset: str = "") -> str | None:
    """The text with \\n line ends and no byte order mark, or None if this is not text.

    `charset` is what came with the bytes (a server's word): heard where the bytes do not say it themselves.
    """
    text = _decoded(data, charset)
    if text is not None and is_binary(text):
        # Chinese in UTF-16 without a line end has no NUL that would have told. In a few bytes, all is sane.
        text = _wide(data) if len(data) >= _LEAST_WIDE and b"\x00" not in data else None
    return None if text is None else unified(text)


def decode_html(data: bytes) -> str | None:
    """Like decode, but a page's word on its own encoding is heard before statistics are."""
    if decoded_by_mark(data) is None and b"\x00" not in data:
        declared = _DECLARED.search(data[:_DECLARED_WITHIN_BYTES])
        said = codec_of(declared[1].decode("ascii", "replace")) if declared else ""
        # A page that says UTF-16 in ASCII letters is not; valid UTF-8 is UTF-8 whatever it says, and
        # only the 7-bit encodings pass for it.
        for encoding in (said, "utf-8") if is_seven_bit(said) else ("utf-8", said):
            text = strictly(data, encoding) if encoding and not is_wide(encoding) else None
            if text is not None:
                return None if is_binary(text) else unified(text)
    return decode(data)


def unified(text: str) -> str:
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def is_binary(text: str) -> bool:
    if "\x00" in text:
        return True
    return len(_CONTROLS.findall(text)) > _MOST_CONTROLS * len(text)


def decoded_by_mark(data: bytes) -> str | None:
    """The text by its byte order mark; None without a mark, or if the mark is a lie."""
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            text = strictly(data[len(mark) :], encoding)
            # FF FE 00 00 is also UTF-16 that begins with NUL, which no text does.
            if text is not None:
                return text
    return None


def declares_charset(data: bytes) -> bool:
    """Whether a page or an XML file says itself what it is in."""
    return _DECLARED.search(data[:_DECLARED_WITHIN_BYTES]) is not None


def _decoded(data: bytes, charset: str) -> str | None:
    text = decoded_by_mark(data)
    if text is None and b"\x00" in data:
        return _wide(data)
    codec = codec_of(charset)
    # Of 7-bit letters alone, so it would pass for UTF-8.
    if text is None and is_seven_bit(codec):
        text = strictly(data, codec)
    if text is None and b"\x1b$" in data and data.isascii():
        text = strictly(data, "iso2022_jp_2")
    if text is None:
        text = strictly(data, "utf-8")
    if text is None and codec:
        text = strictly(data, codec)
    if text is None:
        text = _damaged_utf8(data)
    return text if text is not None else _legacy(data)


def _wide(data: bytes) -> str | None:
    """UTF-32 or UTF-16 without a mark: the reading that gives sane characters, if there is one."""
    nuls = data.count(0)
    # Plain letters with a stray NUL among them pair up into Chinese that is sane to look at.
    if nuls < _LEAST_NULS * len(data):
        narrow = strictly(data.replace(b"\0", b""), "utf-8")
        # Of Cyrillic, Greek or Hebrew, every other byte is the same control character.
        if narrow is not None and not is_binary(narrow):
            return narrow if nuls <= _MOST_STRAY_NULS * len(data) else None
    best: tuple[float, int, str] = (_LEAST_SANE, 0, "")
    for encoding, unit in (("utf-32-le", 4), ("utf-32-be", 4), ("utf-16-le", 2), ("utf-16-be", 2)):
        text = strictly(data, encoding) if len(data) % unit == 0 else None
        if text:
            # A single letter is sane either way round: then the reading with more ASCII in it.
            best = max(best, (_sanity(text), sum(c < "\x80" for c in text[:_SAMPLE_CHARS]), text))
    return best[2] or None


def _sanity(text: str) -> float:
    sample = text[:_SAMPLE_CHARS]
    # Unassigned, private, control: what the wrong byte order gives, and real text does not.
    odd = sum(unicodedata.category(c) in ("Cn", "Co", "Cc") and c not in "\t\n\r\f" for c in sample)
    return 1 - odd / len(sample)


def _damaged_utf8(data: bytes) -> str | None:
    """UTF-8 with a few bad bytes (cut off, or patched by an old editor) is still UTF-8."""
    text = data.decode("utf-8", "replace")
    bad = text.count("\ufffd")
    good = sum(character > "\x7f" for character in text) - bad
    return text if good >= 4 * bad else None


def _legacy(data: bytes) -> str:
    for encoding in _candidates(data):
        text = strictly(data, encoding)
        if text is not None:
            return _central_european(data, text) if encoding == "cp1250" else text
    return data.decode("cp1252", "replace")


def _central_european(data: bytes, windows: str) -> str:
    """The text by ISO 8859-2 if that, and not cp1250 as read so far, makes words of it."""
    is_standard = not _C1.search(data) and (
        _NOT_CP1250.search(windows) or ("ą" in windows and _NOT_POLISH.search(windows))
    )
    return data.decode("iso8859_2") if is_standard else windows


def _candidates(data: bytes) -> list[str]:
    # Only lines that are not ASCII tell encodings apart; the one accent may stand in the last line.
    sample = b"\n".join(line for line in data.splitlines() if not line.isascii())
    if len(sample) > _SAMPLE_BYTES:
        end = sample.rfind(b"\n", 0, _SAMPLE_BYTES)
        sample = sample[: end if end > 0 else _SAMPLE_BYTES]
    runs = [len(run) for run in _HIGH.findall(sample)]
    if _looks_japanese(sample, runs):
        return ["cp932"]
    latin = _looks_latin(sample, runs)
    if told := _told_by_letters(sample) if latin else "cp1255" * _looks_hebrew(sample):
        return [told, "cp1252"]
    if latin and sum(runs) < _FEW_ACCENTS:
        return ["cp1252"]
    # Heavy, and needed only for old encodings.
    from charset_normalizer import from_bytes  # noqa: PLC0415

    allowed: list[str] = list(_LATIN if latin else _LEGACY)
    # The detector lists equal readings once, under the first name it tried; either name will do.
    found = from_bytes(sample, cp_isolation=allowed)
    ranked = sorted(found, key=lambda m: (m.chaos, -m.coherence, allowed.index(m.encoding)))
    # Beside cp1250 the detector passes the standard over as too similar, even where cp1250 makes no sense.
    return [match.encoding for match in ranked] or ["iso8859_2"] * (latin and not _C1.search(data))


def _looks_japanese(sample: bytes, runs: list[int]) -> bool:
    """Kana in every fifth run or more, and nothing that is not in the encoding at all."""
    kana = len(_KANA.findall(sample))
    return kana >= _LEAST_KANA and 5 * kana >= len(runs) and strictly(sample, "cp932") is not None


def _told_by_letters(sample: bytes) -> str:
    """The encoding of the one language that has all of these letters; "" if they do not say."""
    turkish = _letters(sample, "cp1254")
    # Icelandic, whose letters stand in those places, has accents on its vowels too.
    if _TURKISH.issuperset(turkish) and sum(map(turkish.count, _TURKISH_ALONE)) >= _LEAST_TURKISH:
        return "cp1254"
    for codec, letters, groups in _LANGUAGES:
        found = frozenset(_letters(sample, codec))
        if found <= letters and all(found.intersection(group) for group in groups):
            return codec
    return ""


def _letters(sample: bytes, codec: str) -> str:
    return "".join(c for c in sample.decode(codec, "replace") if c > "\x7f" and c.isalpha())


def _looks_hebrew(sample: bytes) -> bool:
    count = len(_HEBREW.findall(sample))
    return (
        count >= _LEAST_HEBREW
        and not _NOT_HEBREW.search(sample)
        and len(_YOD_OR_TAV.findall(sample)) >= 0.08 * count
        and len(_RUSSIAN_VOWEL.findall(sample)) <= 0.33 * count
    )


def _looks_latin(sample: bytes, runs: list[int]) -> bool:
    """Accents stand alone or in words of ASCII letters; Cyrillic, Greek or Chinese come in runs."""
    visible = len(sample) - sum(sample.count(blank) for blank in (b" ", b"\n", b"\t"))
    alone = sum(run == 1 for run in runs)
    in_words = len(_IN_WORD.findall(sample))
    return (sum(runs) < 0.45 * visible and alone >= 0.75 * len(runs)) or (
        sum(runs) < 0.6 * visible and in_words >= 0.65 * len(runs)
    )
