"""Office's formulas (OMML) to LaTeX. Pure.

Never fails: an element it does not know gives the formulas inside it, so no symbol is lost.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable

from .names import MATH
from .tree import Element, local

# Each sign with the name LaTeX has for it.
_NAMED = """
αalpha βbeta γgamma δdelta εepsilon ζzeta ηeta θtheta ιiota κkappa λlambda μmu νnu ξxi οomicron
πpi ρrho ςvarsigma σsigma τtau υupsilon φvarphi χchi ψpsi ωomega ΓGamma ΔDelta ΘTheta ΛLambda ΞXi
ΠPi ΣSigma ΥUpsilon ΦPhi ΨPsi ΩOmega ϕphi ϵepsilon ϑvartheta ±pm ∓mp ×times ÷div ⋅cdot ∙bullet
∗ast ∘circ ≤leq ≥geq ≠neq ≈approx ≅cong ≡equiv ∼sim ∝propto ≪ll ≫gg ∈in ∉notin ∋ni ⊂subset
⊃supset ⊆subseteq ⊇supseteq ∪cup ∩cap ∅emptyset ∖setminus ∀forall ∃exists ¬neg ∧wedge ∨vee ⊕oplus
⊗otimes →to ←leftarrow ↔leftrightarrow ⇒Rightarrow ⇐Leftarrow ⇔Leftrightarrow ↦mapsto ∞infty
∂partial ∇nabla ∑sum ∏prod ∫int ∬iint ∭iiint ∮oint ⋃bigcup ⋂bigcap √surd ∠angle ⊥perp ∥parallel
…ldots ⋯cdots ⋮vdots ⋱ddots ℏhbar ℓell ℜRe ℑIm ℵaleph ⟨langle ⟩rangle ⌊lfloor ⌋rfloor ⌈lceil
⌉rceil ‖|
"""
_SIGNS = {word[0]: word[1:] for word in _NAMED.split()}
_RESERVED = {"{": r"\{", "}": r"\}", "%": r"\%", "#": r"\#", "&": r"\&", "$": r"\$", "_": r"\_"}
_ACCENTS = {
    "\u0300": "grave",
    "\u0301": "acute",
    "\u0302": "hat",
    "\u0303": "tilde",
    "\u0304": "bar",
    "\u0305": "overline",
    "\u0306": "breve",
    "\u0307": "dot",
    "\u0308": "ddot",
    "\u030c": "check",
    "\u20d7": "vec",
    "\u20d6": "overleftarrow",
    "\u20db": "dddot",
    "→": "vec",
    "^": "hat",
    "~": "tilde",
    "¯": "bar",
}
_KNOWN = """
arccos arcsin arctan arg cos cosh cot coth csc deg det dim exp gcd hom inf ker lg lim liminf limsup ln log
max min sec sin sinh sup tan tanh
"""
_FUNCTIONS = frozenset(_KNOWN.split())
_NEXT_ROW = r" \\ "
_BRACES = {"⏞": "overbrace", "⏟": "underbrace", "⎴": "overbracket", "⎵": "underbracket"}


def latex(formula: Element) -> str:
    """The formula in LaTeX, without dollar signs; "" if it is empty."""
    return " ".join(_all(formula).split())


def _all(elements: Iterable[Element]) -> str:
    return "".join(_one(element) for element in elements)


def _one(element: Element) -> str:
    name = local(element)
    if name.endswith("Pr") or name in ("del", "moveFrom", "delText", "instrText"):
        return ""
    write = _WRITERS.get(name)
    return write(element) if write else _all(element)


def _part(element: Element, name: str) -> str:
    found = element.find(f"{MATH}{name}")
    return _all(found) if found is not None else ""


def _property(element: Element, name: str, default: str) -> str:
    found = element.find(f"{MATH}{local(element)}Pr/{MATH}{name}")
    if found is None:
        return default
    value = found.get(f"{MATH}val")
    return default if value is None else value


def _is_on(element: Element, path: str) -> bool:
    found = element.find(path)
    return found is not None and found.get(f"{MATH}val") not in ("0", "off", "false")


def _run(element: Element) -> str:
    text = "".join(part.text or "" for part in element.iter(f"{MATH}t"))
    if not text:
        return ""
    if _is_on(element, f"{MATH}rPr/{MATH}nor") and text.strip():
        return rf"\text{{{text}}}"
    return _signs(text)


def _signs(text: str) -> str:
    parts: list[str] = []
    for index, character in enumerate(text):
        # Mathematical italic letters are letters: what a reader types in a search.
        character = _plain_letter(character)
        if character == "\\":
            parts.append(r"\backslash ")
        elif character in _SIGNS:
            name = _SIGNS[character]
            follows_letter = name[-1].isalpha() and text[index + 1 : index + 2].isalpha()
            parts.append(f"\\{name}{' ' if follows_letter or index + 1 == len(text) else ''}")
        else:
            parts.append(_RESERVED.get(character, character))
    return "".join(parts)


def _plain_letter(character: str) -> str:
    if "\U0001d400" <= character <= "\U0001d7ff":
        return unicodedata.normalize("NFKC", character)
    return character


def _fraction(element: Element) -> str:
    top, bottom = _part(element, "num"), _part(element, "den")
    kind = _property(element, "type", "bar")
    if kind == "lin":
        return f"{top}/{bottom}"
    if kind == "noBar":
        return rf"\genfrac{{}}{{}}{{0pt}}{{}}{{{top}}}{{{bottom}}}"
    return rf"\frac{{{top}}}{{{bottom}}}"


def _scripts(element: Element) -> str:
    lower, upper = _part(element, "sub").strip(), _part(element, "sup").strip()
    text = (f"_{{{lower}}}" if lower else "") + (f"^{{{upper}}}" if upper else "")
    base = _part(element, "e")
    return f"{{}}{text}{base}" if local(element) == "sPre" else f"{base}{text}"


def _root(element: Element) -> str:
    degree = _part(element, "deg").strip()
    return rf"\sqrt{f'[{degree}]' if degree else ''}{{{_part(element, 'e')}}}"


def _operator(element: Element) -> str:
    sign = _signs(_property(element, "chr", "∫")).strip()
    lower, upper = _part(element, "sub").strip(), _part(element, "sup").strip()
    limits = (f"_{{{lower}}}" if lower else "") + (f"^{{{upper}}}" if upper else "")
    return f"{sign}{limits} {_part(element, 'e')}"


def _delimited(element: Element) -> str:
    opening = _signs(_property(element, "begChr", "(")).strip()
    closing = _signs(_property(element, "endChr", ")")).strip()
    between = _signs(_property(element, "sepChr", "|")).strip()
    inner = f" {between} ".join(_all(part) for part in element.findall(f"{MATH}e"))
    return rf"\left{opening or '.'} {inner} \right{closing or '.'}"


def _matrix(element: Element) -> str:
    rows = [
        " & ".join(_all(cell) for cell in row.findall(f"{MATH}e")) for row in element.findall(f"{MATH}mr")
    ]
    return rf"\begin{{matrix}} {_NEXT_ROW.join(rows)} \end{{matrix}}"


def _stacked(element: Element) -> str:
    lines = [_all(line) for line in element.findall(f"{MATH}e")]
    return rf"\begin{{array}}{{l}} {_NEXT_ROW.join(lines)} \end{{array}}"


def _function(element: Element) -> str:
    name = element.find(f"{MATH}fName")
    return f"{_name_run(name).strip() if name is not None else ''} {_part(element, 'e')}"


def _function_name(text: str) -> str:
    return rf"\{text}" if text in _FUNCTIONS else text


def _name_run(element: Element) -> str:
    return "".join(
        _function_name(_run(part).strip()) if local(part) == "r" else _one(part) for part in element
    )


def _limit(element: Element) -> str:
    base = element.find(f"{MATH}e")
    name = _name_run(base).strip() if base is not None else ""
    bound = _part(element, "lim").strip()
    if local(element) == "limUpp":
        return rf"\overset{{{bound}}}{{{name}}}"
    return f"{name}_{{{bound}}}" if name.startswith("\\") else rf"\underset{{{bound}}}{{{name}}}"


def _accent(element: Element) -> str:
    name = _ACCENTS.get(_property(element, "chr", "\u0302"), "hat")
    return rf"\{name}{{{_part(element, 'e')}}}"


def _bar(element: Element) -> str:
    name = "overline" if _property(element, "pos", "bot") == "top" else "underline"
    return rf"\{name}{{{_part(element, 'e')}}}"


def _grouped(element: Element) -> str:
    sign = _property(element, "chr", "⏟")
    inner = _part(element, "e")
    if sign in _BRACES:
        return rf"\{_BRACES[sign]}{{{inner}}}"
    place = "overset" if _property(element, "pos", "bot") == "top" else "underset"
    return rf"\{place}{{{_signs(sign).strip()}}}{{{inner}}}"


def _boxed(element: Element) -> str:
    return rf"\boxed{{{_part(element, 'e')}}}"


_WRITERS: dict[str, Callable[[Element], str]] = {
    "r": _run,
    "f": _fraction,
    "sSup": _scripts,
    "sSub": _scripts,
    "sSubSup": _scripts,
    "sPre": _scripts,
    "rad": _root,
    "nary": _operator,
    "d": _delimited,
    "m": _matrix,
    "eqArr": _stacked,
    "func": _function,
    "limLow": _limit,
    "limUpp": _limit,
    "acc": _accent,
    "bar": _bar,
    "groupChr": _grouped,
    "borderBox": _boxed,
}
