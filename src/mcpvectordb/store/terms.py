"""Words as BM25 should see them: the same normalising for what is stored and what is asked. Pure.

LanceDB's index splits words of all scripts, lower-cases, stems English and drops stop words. What it
does not do, and users expect: find `istanbul` in `İstanbul`, `strasse` in `Straße`, `username` in
`getUserName`, `документ` in `документы`, `بيانات` in `البيانات`, `데이터베이스` in `데이터베이스를`.
"""

from __future__ import annotations

import importlib
import itertools
import re
import unicodedata
from functools import cache, lru_cache
from typing import Protocol

# The index gets this list too, so that "a query of stop words only" means the same to both. Length matters:
# with 33 words instead of these, Cranfield's keyword nDCG@10 is .370 and not .380.
STOP_WORDS = tuple(
    """
    a about above after again against ain all also am an and any are as at be because been before being
    below between both but by can d did do does doing don down during each few for from further had has
    have having he her here hers herself him himself his how i if in into is it its itself just ll m me
    more most my myself no nor not now o of off on once only or other our ours ourselves out over own re
    s same she should so some such t than that the their theirs them themselves then there these they
    this those through to too under until up ve very was we were what when where which while who whom
    why will with y you your yours yourself yourselves
    """.split()  # noqa: SIM905  (a line for each word would say less)
)
_STOP = frozenset(STOP_WORDS)

# The vowel signs of Devanagari are no letters to `\w`, but words are not to be cut at them.
_WORD = re.compile(r"[\w\u0900-\u0963]+")
_LETTER = re.compile(r"[^\W_]")
# A hump (userName) or the end of an acronym (HTTPServer).
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9]+")
_QUOTED = re.compile(r'"([^"]+)"|“([^”]+)”|„([^“”]+)[“”]|«([^»]+)»')
_LONGEST_WORD = 200  # a base64 blob is one "word"; its humps would be thousands of terms

# Scripts whose words change their endings, and the stemmer for each. English is the index's own work.
_SCRIPTS = (
    (re.compile(r"[\u0400-\u052f]"), "russian"),
    (re.compile(r"[\u0370-\u03ff\u1f00-\u1fff]"), "greek"),
    (re.compile(r"[\u0900-\u097f]"), "hindi"),
)
_NOT_LATIN = re.compile(r"[\u0370-\u1fff\uac00-\ud7a3]")
# Arabic by hand: snowball's stemmer takes the first letter of بيانات for a preposition, and so parts it
# from البيانات. The article and the commonest endings, if three letters stay, are what a searcher varies.
_ARABIC = re.compile(r"[\u0600-\u06ff]{4,}")
_ARTICLES = ("وال", "بال", "كال", "فال", "ال", "لل")
_ENDINGS = ("ها", "ان", "ات", "ون", "ين", "يه", "ية", "ه", "ة", "ي")
_HANGUL = re.compile(r"[\uac00-\ud7a3]{3,}")
# Korean particles, longest first: what is left of the word must have two syllables or more.
_PARTICLES = (
    *(
        "에서는",
        "으로는",
        "에게서",
        "이라는",
        "으로써",
        "으로서",
        "까지는",
        "부터는",
        "입니다",
        "합니다",
        "했습니다",
    ),
    *(
        "에서",
        "에게",
        "으로",
        "까지",
        "부터",
        "처럼",
        "보다",
        "마다",
        "이나",
        "이란",
        "라는",
        "와의",
        "과의",
        "에는",
        "에도",
    ),
    *("은", "는", "이", "가", "을", "를", "의", "에", "와", "과", "도", "로", "만", "나", "랑"),
)


class _Stemmer(Protocol):
    def stemWord(self, word: str) -> str: ...


def search_text(*parts: str) -> str:
    """What the ranking index reads of these texts."""
    return normalise("\n".join(part for part in parts if part), split=True)


def exact_text(*parts: str) -> str:
    """What the phrase index reads: folded, but not stemmed, split or thinned out."""
    return normalise("\n".join(part for part in parts if part), split=False)


def normalise(text: str, *, split: bool) -> str:
    if split:
        text = _IDENTIFIER.sub(_with_parts, text)
    folded = fold(text)
    if not split or not _NOT_LATIN.search(folded):
        return folded
    return _WORD.sub(lambda match: _stem(match[0]), folded)


def fold(text: str) -> str:
    """Case and compatibility forms away, and accents off: Straße → strasse, İstanbul → istanbul, ﬁ → fi."""
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    kept = "".join(c for c in decomposed if not _is_accent(c))
    return unicodedata.normalize("NFKC", kept)


def phrases(query: str) -> list[str]:
    """The quoted parts of a query, folded, that have a word in them. The index finds their words."""
    found = (fold(next(part for part in match if part)) for match in _QUOTED.findall(query))
    return [phrase for phrase in found if _LETTER.search(phrase)]


def is_stop_words_only(query: str) -> bool:
    words = _WORD.findall(fold(query))
    return bool(words) and all(word in _STOP for word in words)


def _is_accent(char: str) -> bool:
    # Only accents of Latin, Greek and Cyrillic letters: vowel signs of other scripts are letters in fact.
    return "\u0300" <= char <= "\u036f"


def _with_parts(match: re.Match[str]) -> str:
    """getUserName → getUserName get User Name getUser UserName."""
    word = match[0]
    if len(word) > _LONGEST_WORD:
        return word
    parts = _HUMP.split(word)
    if len(parts) < 2:
        return word
    pairs = [a + b for a, b in itertools.pairwise(parts)] if len(parts) > 2 else []
    return " ".join([word, *parts, *pairs])


@lru_cache(maxsize=50_000)
def _stem(word: str) -> str:
    if len(word) > _LONGEST_WORD:  # some stemmers take seconds for a megabyte, and this cache would keep it
        return word
    if _HANGUL.fullmatch(word):
        return _without_end(word, _PARTICLES, least=2)
    if _ARABIC.fullmatch(word):
        article = next((a for a in _ARTICLES if word.startswith(a) and len(word) - len(a) >= 3), "")
        return _without_end(word.removeprefix(article), _ENDINGS, least=3)
    for letters, language in _SCRIPTS:
        if letters.search(word):
            return _stemmer(language).stemWord(word)
    return word


def _without_end(word: str, ends: tuple[str, ...], *, least: int) -> str:
    end = next((e for e in ends if word.endswith(e) and len(word) - len(e) >= least), "")
    return word.removesuffix(end)


@cache
def _stemmer(language: str) -> _Stemmer:
    # Most libraries hold English only and never need it. It has no types, hence not a plain import.
    return importlib.import_module("snowballstemmer").stemmer(language)
