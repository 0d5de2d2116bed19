"""Take off a page what is not its content: navigation, banners, footers, hidden parts.

Only drops elements, and drops none that holds the main content. When in doubt an element stays: a
menu in the index costs a little precision, a lost paragraph cannot be found at all.
"""

from __future__ import annotations

import re

from bs4 import Tag

from .soup import HEADINGS, Sizes, attribute, is_gone, is_main, text_of, tokens

# Never content. svg and iframe hold labels and fallbacks, template and noscript what nobody sees.
_SCRIPTS = ("script", "style", "head", "title", "meta", "link", "base")
_MACHINERY = ("noscript", "template", "svg", "iframe")

_ROLES = frozenset({"navigation", "search", "dialog", "alertdialog"})
_PAGE_PARTS = frozenset({"header", "footer", "aside"})
_PAGE_ROLES = frozenset({"banner", "contentinfo", "complementary"})
# Inside these a header is that part's heading, an aside its margin note.
_SCOPES = frozenset({"section", "blockquote", "figure", "details", "td", "li"})

_LINK_LISTS = re.compile(
    r"(?:[\w-]*[-_])?(?:breadcrumbs?|sidebar|sidenav|nav|navbar|navigation|navigationbar|topnav|pagination|pager"
    r"|menu|toc-menu)(?:[-_][\w-]*)?"
)
# DocBook's, with the titles of the pages before and after, which are no links.
_NAVIGATION = frozenset({"navheader", "navfooter"})
_SKIP_TOKENS = frozenset(
    {"skip-link", "skiplink", "skip-nav", "skip-to-content", "skip-to-main", "skip-main"}
)
_SKIP_TEXT = re.compile(r"(?:skip|jump) (?:to|over|past|navigation|nav|main|content)\b", re.I)
_HEADING_ANCHORS = frozenset(
    {"headerlink", "anchor", "anchor-link", "anchorjs-link", "hash-link", "header-anchor"}
)
_ANCHOR_SIGNS = frozenset({"", "#", "¶", "§", "🔗", "link", "permalink"})

# Names only a consent banner has. The weak ones are also what a generated anchor of a section about
# consent looks like, so as an id they need a button beside them, and they never count inside main.
_CONSENT_STRONG = re.compile(
    r"(?:cookies?|consent|gdpr|ccpa|privacy)[-_]?(?:consent|notice)?[-_]?"
    r"(?:banner|bar|popup|pop-up|modal|overlay|dialog|wall|toast|alert)(?:[-_](?:container|wrapper|inner))?"
    r"|onetrust(?:-[\w-]+)?|ot-sdk-container|cybotcookiebot\w*|cookiebot|didomi(?:-[\w-]+)?|truste(?:-[\w-]+)?"
    r"|qc-cmp2?-[\w-]+|cc-window|cc-banner|cookie-law-info-bar|cky-[\w-]+|osano-cm-[\w-]+|usercentrics-[\w-]+"
    r"|iubenda-cs-[\w-]+|termly-[\w-]+|fc-consent-root|sp_message_container\w*|cmplz-[\w-]+"
)
_CONSENT_WEAK = re.compile(
    r"(?:cookies?|gdpr)[-_]?(?:consent|notice|notification|message|disclaimer|warning|info)"
    r"(?:[-_](?:container|wrapper))?|gdpr"
)

_HIDDEN_STYLE = re.compile(r"(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*hidden)", re.I)
# Hidden text this long is a tab or an accordion, not a label for a script.
_SUBSTANTIAL_CHARS = 200
# An unclosed <noscript> may swallow a page; "please enable JavaScript" is shorter than this.
_SWALLOWED_CHARS = 500


def drop_scripts(root: Tag) -> None:
    """What is never text, in any page."""
    for tag in root.find_all(_SCRIPTS):
        tag.decompose()
    sizes = Sizes(root)
    for tag in root.find_all(_MACHINERY):
        if is_gone(tag):
            continue
        if sizes.text(tag) > max(_SWALLOWED_CHARS, sizes.text(root) / 2):
            tag.unwrap()
        else:
            tag.decompose()


def drop_clutter(root: Tag) -> None:
    """What is around the content rather than in it."""
    sizes = Sizes(root)
    inside = _Inside()
    for tag in root.find_all(True):
        if is_gone(tag) or tag.name in ("html", "body"):
            continue
        in_main, in_scope = inside.of(tag)
        if is_main(tag) or sizes.holds_main(tag):
            continue
        if _is_page_part(tag) and not in_main and not in_scope:
            _drop_all_but_heading(tag)
        elif (
            tag.name in ("nav", "search")
            or attribute(tag, "role").lower() in _ROLES
            or _is_anchor_sign(tag)
            or "mw-editsection" in tokens(tag)
            or _is_skip_link(tag)
            or (_is_hidden(tag) and sizes.text(tag) < _SUBSTANTIAL_CHARS)
            or (2 * sizes.text(tag) <= sizes.text(root) and _is_aside(tag, sizes, in_main=in_main))
        ):
            tag.decompose()


class _Inside:
    """Whether elements, asked for in document order, stand in main or in a part with its own header."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[bool, bool]] = {}

    def of(self, tag: Tag) -> tuple[bool, bool]:
        parent = tag.parent
        main, scope = self._known.get(id(parent), (False, False))
        if parent is not None:
            main, scope = main or is_main(parent), scope or parent.name in _SCOPES
        self._known[id(tag)] = (main, scope)
        return main, scope


def _is_page_part(tag: Tag) -> bool:
    role = attribute(tag, "role").lower()
    return role in _PAGE_ROLES or (tag.name in _PAGE_PARTS and role in ("", "none", "presentation"))


def _drop_all_but_heading(tag: Tag) -> None:
    """The title of many a page stands in its header."""
    headings = tag.find_all("h1")
    if len(headings) == 1:
        tag.insert_before(headings[0].extract())
    tag.decompose()


def _is_aside(tag: Tag, sizes: Sizes, *, in_main: bool) -> bool:
    """A consent banner, or a list of links that is hidden, beside the content, or on to the next page."""
    if _is_consent(tag, in_main=in_main):
        return True
    if tokens(tag) & _NAVIGATION and not in_main:
        return True
    if not sizes.is_mostly_links(tag):
        return False
    return _is_hidden(tag) or (
        not in_main
        and tag.name not in ("a", "span", *HEADINGS)
        and any(_LINK_LISTS.fullmatch(token) for token in tokens(tag))
    )


def _is_hidden(tag: Tag) -> bool:
    # A tab that is not in front is content all the same.
    if attribute(tag, "role") == "tabpanel":
        return False
    return (
        (tag.has_attr("hidden") and attribute(tag, "hidden") != "until-found")
        or attribute(tag, "aria-hidden").lower() == "true"
        or _HIDDEN_STYLE.search(attribute(tag, "style")) is not None
    )


def _is_consent(tag: Tag, *, in_main: bool) -> bool:
    if tag.name in ("a", "code", "pre", *HEADINGS):
        return False
    if any(_CONSENT_STRONG.fullmatch(token) for token in tokens(tag)):
        return True
    if in_main or not any(_CONSENT_WEAK.fullmatch(token) for token in tokens(tag)):
        return False
    by_class = any(_CONSENT_WEAK.fullmatch(token) for token in attribute(tag, "class").lower().split())
    return by_class or tag.find(["button", "input"]) is not None


def _is_skip_link(tag: Tag) -> bool:
    if tag.name != "a" or not attribute(tag, "href").startswith("#"):
        return False
    return bool(tokens(tag) & _SKIP_TOKENS) or _SKIP_TEXT.match(text_of(tag)) is not None


def _is_anchor_sign(tag: Tag) -> bool:
    """The ¶ beside a heading that links to itself."""
    if tag.name != "a" or not attribute(tag, "href").startswith("#") or tag.find("img"):
        return False
    return text_of(tag).lower() in _ANCHOR_SIGNS and (
        bool(tokens(tag) & _HEADING_ANCHORS) or tag.find_parent(HEADINGS) is not None
    )
