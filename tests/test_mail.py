"""Mail becomes Markdown: subject, addresses, one body, attachments that are text; hostile mail one error."""

from __future__ import annotations

import base64
import datetime as dt
import zlib

import pytest

from converting import CONVERTER
from mcpvectordb.convert.read.mail_words import flowed, header
from mcpvectordb.errors import ConversionError
from mcpvectordb.models import Converted, Source
from messages import Storage, message, ole

HEAD = b"From: Ann <ann@example.org>\r\nTo: bob@example.org\r\nSubject: The boat\r\nMIME-Version: 1.0\r\n"
TOP = "# The boat\n\nFrom: Ann <ann@example.org>\nTo: bob@example.org\n\n"


def converted(data: bytes, name: str = "a.eml") -> Converted:
    return CONVERTER.convert(Source(name=name, library="d", kind="file", data=data, file_name=name))


def error(data: bytes, name: str = "a.eml") -> str:
    with pytest.raises(ConversionError) as caught:
        converted(data, name)
    return str(caught.value)


def part(kind: str, body: bytes, *headers: str) -> bytes:
    return "\r\n".join([f"Content-Type: {kind}", *headers]).encode() + b"\r\n\r\n" + body


def multi(kind: str, *parts: bytes, boundary: str = "=_b") -> bytes:
    mark = boundary.encode()
    inner = b"".join(b"--" + mark + b"\r\n" + each + b"\r\n" for each in parts)
    return part(f'multipart/{kind}; boundary="{boundary}"', inner + b"--" + mark + b"--\r\n")


def body_of(entity: bytes) -> str:
    text = converted(HEAD + entity).text
    assert text.startswith(TOP)
    return text.removeprefix(TOP)


PLAIN = part("text/plain; charset=utf-8", "The café opens at nine.\r\nBring oars.".encode())
HTML = part("text/html; charset=utf-8", "<p>The café <b>opens</b> at nine.</p><p>Bring oars.</p>".encode())


def test_a_message_has_its_subject_as_title_then_addresses_then_its_text() -> None:
    data = (
        b"Received: by somewhere\r\nFrom: =?utf-8?b?QW5uw6ksIE0u?= <ann@example.org>\r\n"
        b"To: Bob\r\n <bob@example.org>,\r\n\tCy <cy@example.org>\r\nCc: d@example.org\r\n"
        b"Date: Mon, 5 Feb 2024 09:30:00 +0100\r\n"
        b"Subject: =?iso-8859-1?q?Caf=E9?= =?iso-8859-1?q?_at?= nine\r\n\r\nHello.\r\n\r\n-- \r\nAnn\r\n"
    )
    result = converted(data)
    assert (result.title, result.file_type, result.notice) == ("Café at nine", "eml", "")
    assert result.text == (
        "# Café at nine\n\nFrom: Anné, M. <ann@example.org>\nTo: Bob <bob@example.org>, Cy <cy@example.org>\n"
        "Cc: d@example.org\nDate: Mon, 5 Feb 2024 09:30:00 +0100\n\n## Content\n\nHello.\n\n--\nAnn"
    )


def test_a_message_without_a_subject_is_not_called_by_a_heading_of_ours() -> None:
    head = b"From: Ann <ann@example.org>\r\n"
    assert converted(head + PLAIN).title == ""
    attached = part("text/plain; name=oars.txt", b"Two oars.", "Content-Disposition: attachment")
    assert converted(head + multi("mixed", attached)).title == ""


def test_a_part_sent_in_binary_costs_neither_the_message_nor_the_page() -> None:
    picture = part(
        "image/png", b"\x89PNG\r\n\x1a\n\0\0\0\xff", "Content-Transfer-Encoding: binary", "Content-ID: <1>"
    )
    assert body_of(multi("related", HTML, picture)) == body_of(HTML)
    assert converted(HEAD + multi("related", HTML, picture), "saved.mht").text == converted(HEAD + HTML).text
    assert body_of(part("text/plain", b"The boat\0 is ash.")) == "## Content\n\nThe boat is ash."
    assert "could not be read as an e-mail message" in error(b"\0\1\2 no mail at all")


def test_of_two_versions_of_the_body_only_one_is_kept() -> None:
    assert body_of(multi("alternative", PLAIN, HTML)) == (
        "## Content\n\nThe café opens at nine.\nBring oars."
    )
    stub = part("text/plain", b"Your mail program cannot show this message.")
    long = part("text/html", b"<h1>News</h1>" + b"<p>A paragraph about boats and the tide tables.</p>" * 20)
    text = body_of(multi("alternative", stub, long))
    assert text.startswith("## Content\n\n### News\n\nA paragraph about boats")
    assert "cannot show" not in text
    assert body_of(HTML) == "## Content\n\nThe café **opens** at nine.\n\nBring oars."


def test_nested_parts_are_read_in_order_and_signatures_are_not_attachments() -> None:
    inner = multi("alternative", PLAIN, HTML, boundary="in")
    picture = part("image/png; name=logo.png", b"\x89PNG", "Content-ID: <1>", "Content-Disposition: inline")
    related = multi("related", inner, picture, boundary="rel")
    seal = part("application/pgp-signature; name=signature.asc", b"-----BEGIN PGP SIGNATURE-----")
    footer = part("text/plain", b"You get this mail as a member.")
    result = converted(HEAD + multi("signed", multi("mixed", related, footer, boundary="mix"), seal))
    assert result.text == TOP + (
        "## Content\n\nThe café opens at nine.\nBring oars.\n\nYou get this mail as a member.\n\n"
        "Attachments: logo.png"
    )
    assert result.notice == (
        "1 attachment of a.eml was not indexed (logo.png): save it from the mail program and add it."
    )


@pytest.mark.parametrize(
    ("kind", "body", "encoding", "text"),
    [
        ("text/plain; charset=utf-8", b"caf=C3=A9 =\r\non", "quoted-printable", "café on"),
        ("text/plain; charset=utf-8", base64.b64encode("naïve".encode()), "base64", "naïve"),
        ("text/plain; charset=windows-1251", "Привет".encode("cp1251"), "8bit", "Привет"),
        ("text/plain; charset=iso-2022-jp", "日本".encode("iso-2022-jp"), "7bit", "日本"),
        ('text/plain; charset="x-no-such"', b"caf\xe9", "8bit", "café"),
        ("text/plain", "déjà".encode(), "8bit", "déjà"),
        ("text/plain; charset=us-ascii", "‘so’".encode(), "8bit", "‘so’"),
        ("text/plain; charset=utf-7", b"1 +AD4- 0", "7bit", "1 > 0"),
        ("text/plain; format=flowed", b"one \r\nline\r\n> a \r\n> quote", "7bit", "one line\n> a quote"),
        ("TEXT/PLAIN; CHARSET=UTF-8", b"=E2=82=AC 5", " Quoted-Printable ", "€ 5"),
        ("text", b"words", "7bit", "words"),
        ("multipart/mixed", b"no boundary", "7bit", "no boundary"),
        ("multipart/mixed; boundary=never", b"no such boundary", "7bit", "no such boundary"),
        ("text/plain", b"# no heading\r\nNorth\r\n---", "7bit", "\\# no heading\nNorth\n\n---"),
        ("text/plain", b"<html><body><p>Mislabelled</p></body></html>", "7bit", "Mislabelled"),
    ],
)
def test_a_body_is_decoded_whatever_its_headers_say(kind: str, body: bytes, encoding: str, text: str) -> None:
    found = body_of(part(kind, body, f"Content-Transfer-Encoding: {encoding}"))
    assert found == f"## Content\n\n{text}"


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("=?utf-8?Q?a_b=C3?= =?utf-8?Q?=A9?=", "a bé"),
        ("=?UTF-8*en?b?w6k?= x =?iso-8859-15?q?=A4?=", "é x €"),
        ("=?gb2312?b?1tDOxA==?=", "中文"),
        ("caf\udcc3\udca9", "café"),
        ("caf\udce9", "café"),
        ("=?utf-8?x?nothing?=", "=?utf-8?x?nothing?="),
        ("=?unknown?q?caf=E9?=", "café"),
        ("=?utf-8?b?a?=", ""),
        ("a\r\n  b", "a b"),
    ],
)
def test_headers_are_decoded_as_mail_programs_do(written: str, shown: str) -> None:
    assert header(written) == shown


def test_attachments_that_are_text_are_read_and_the_others_named() -> None:
    attached = "Content-Disposition: attachment"
    parts = (
        PLAIN,
        part("text/csv", b"a,b\r\n1,2", f"{attached}; filename=t.csv"),
        part("application/octet-stream", b"# Notes\n\nHoist.", f"{attached}; filename*=utf-8''n%C3%A9.md"),
        part("application/pdf", b"%PDF-1.7", f'{attached}; filename*0="a long "; filename*1="name.pdf"'),
        part("text/html", b"<h1>Page</h1><p>inside</p>", f"{attached}; filename=p.html"),
        part("text/rtf", rb"{\rtf1 Rich {\b text}\par}", f"{attached}; filename=r.rtf"),
        part("text/calendar; method=REQUEST", b"BEGIN:VCALENDAR\r\nSUMMARY:Regatta\r\nEND:VCALENDAR"),
        part("image/png", b"x", f"{attached}; filename==?utf-8?q?=C3=A9t=C3=A9.png?="),
    )
    result = converted(HEAD + multi("mixed", *parts))
    assert result.text.removeprefix(TOP) == (
        "## Content\n\nThe café opens at nine.\nBring oars.\n\n"
        "Attachments: t.csv, né.md, a long name.pdf, p.html, r.rtf, unnamed.ics, été.png\n\n"
        "## Attachment: t.csv\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n\n"
        "## Attachment: né.md\n\n### Notes\n\nHoist.\n\n"
        "## Attachment: p.html\n\n### Page\n\ninside\n\n"
        "## Attachment: r.rtf\n\nRich **text**\n\n"
        "## Attachment: unnamed.ics\n\n```ics\nBEGIN:VCALENDAR\nSUMMARY:Regatta\nEND:VCALENDAR\n```"
    )
    assert result.notice == (
        "2 attachments of a.eml were not indexed (a long name.pdf, été.png): "
        "save them from the mail program and add them."
    )


def test_the_pictures_and_styles_of_a_saved_page_are_not_attachments() -> None:
    here = "Content-Location: https://example.org/"
    page = multi(
        "related",
        part("text/html; charset=utf-8", b"<h1>Tides</h1><p>High at noon.</p>", here),
        part("image/png", b"x", f"{here}a.png"),
        part("text/css", b"p { color: red }", f"{here}a.css"),
        part("image/png", b"x", "Content-ID: <logo>"),
    )
    result = converted(b"Subject: Saved\r\nMIME-Version: 1.0\r\n" + page, "page.mht")
    assert (result.title, result.file_type, result.notice) == ("Saved", "eml", "")
    assert "High at noon." in result.text
    assert "ttachment" not in result.text
    assert "color" not in result.text


def test_what_word_keeps_beside_a_page_saved_as_one_file_is_not_of_it() -> None:
    here = "Content-Location: file:///C:/B1/tides"
    page = multi(
        "related",
        part(
            "text/html; charset=utf-8", b"<title>Tides &amp; winds</title><p>High at noon.</p>", f"{here}.htm"
        ),
        part("text/xml", b"<xml><o:File HRef='x'/></xml>", f"{here}/filelist.xml"),
        part("application/vnd.ms-officetheme", b"PK", f"{here}/themedata.thmx"),
    )
    result = converted(b"MIME-Version: 1.0\r\n" + page, "page.mht")
    assert (result.title, result.text, result.notice) == ("Tides & winds", "## Content\n\nHigh at noon.", "")


def test_a_message_within_a_message_is_read_below_it() -> None:
    inner = b"From: cy@example.org\r\nSubject: Mast\r\n\r\nThe mast is ash."
    text = body_of(multi("mixed", PLAIN, part("message/rfc822", inner)))
    assert text.endswith(
        "Attachments: Mast\n\n## Attachment: Mast\n\n### Mast\n\nFrom: cy@example.org\n\n"
        "#### Content\n\nThe mast is ash."
    )


def test_a_bounced_message_shows_its_reason() -> None:
    report = part("message/delivery-status", b"Reporting-MTA: dns; mx\r\n\r\nAction: failed\r\nStatus: 5.1.1")
    text = body_of(multi("report; report-type=delivery-status", PLAIN, report))
    assert "Action: failed" in text
    assert "Status: 5.1.1" in text


@pytest.mark.parametrize(
    "entity",
    [
        part("application/pkcs7-mime; smime-type=enveloped-data; name=smime.p7m", b"MIIB"),
        multi(
            "encrypted; protocol=application/pgp-encrypted",
            part("application/pgp-encrypted", b"Version: 1"),
            part("application/octet-stream; name=encrypted.asc", b"-----BEGIN PGP MESSAGE-----"),
        ),
    ],
)
def test_an_encrypted_message_says_so_and_keeps_its_subject(entity: bytes) -> None:
    result = converted(HEAD + entity)
    assert result.title == "The boat"
    assert "The message is encrypted, so its body was not indexed" in result.notice


def test_mailboxes_and_apple_s_files_are_read() -> None:
    one = (
        b"From ann@example.org Mon Feb  5 09:30:00 2024\n" + HEAD.replace(b"\r", b"") + b"\n>From here on\n\n"
    )
    text = converted(one * 2).text
    assert text == (TOP + "## Content\n\nFrom here on\n\n") * 1 + TOP + "## Content\n\nFrom here on"
    apple = HEAD + b"\r\nIn the garden.\r\n"
    assert converted(b"%d\n" % len(apple) + apple + b"<?xml version='1.0'?><plist/>").text == (
        TOP + "## Content\n\nIn the garden."
    )


def test_a_file_without_headers_is_text_with_a_notice_and_an_empty_one_an_error() -> None:
    result = converted(b"Just some words about boats.\r\n")
    assert result.text == "Just some words about boats."
    assert "has no headers of an e-mail message" in result.notice
    assert error(b"From: \r\nSubject: \r\n\r\n") == (
        "a.eml holds no text (no subject, no body): there is nothing to index."
    )


def nested(depth: int) -> bytes:
    opened = b"".join(
        b'Content-Type: multipart/mixed; boundary="b%d"\r\n\r\n--b%d\r\n' % (at, at) for at in range(depth)
    )
    return HEAD + opened + b"Content-Type: text/plain\r\n\r\ndeep text\r\n"


def test_parts_within_parts_are_read_as_far_as_is_sane() -> None:
    assert converted(nested(100)).text.endswith("deep text")
    assert error(nested(10_000)) == (
        "a.eml nests messages within messages too deeply to be read: "
        "save the one you mean from the mail program and add that."
    )
    forwarded = HEAD + b"Content-Type: message/rfc822\r\n\r\n"
    result = converted(forwarded * 30 + HEAD + b"\r\ndeep")
    assert "1 attachment of a.eml was not indexed (The boat)" in result.notice
    assert "too deeply" in error(forwarded * 10_000 + HEAD + b"\r\ndeep")


def test_thousands_of_parts_end_in_a_notice() -> None:
    many = multi("mixed", *(part("text/plain", b"part %d" % at) for at in range(10_000)))
    result = converted(HEAD + many)
    assert result.text.endswith("part 1999")
    assert result.notice == "Only the first 2,000 parts of the message were read."


@pytest.mark.parametrize(
    "data",
    [
        b"".join(b"X-%d: v\r\n" % at for at in range(60_000)) + HEAD + b"\r\nbody",
        b"From: a\r\nSubject: The boat " + b"=?utf-8?q?x?= " * 100_000 + b"\r\n\r\nbody",
        b"Subject: The boat\r\nTo: " + b"a@b.c, " * 200_000 + b"\r\n\r\nbody",
        b"Subject: The boat" + b"\r\n y" * 100_000 + b"\r\n\r\nbody",
        HEAD + b"Content-Type: text/plain" + b"; a=b" * 100_000 + b"\r\n\r\nbody",
        HEAD + b"Content-Type: text/plain" + b"; name*9=x" * 20_000 + b"\r\n\r\nbody",
        HEAD + b'Content-Type: text/plain; x="' + b'\\"' * 100_000 + b"\r\n\r\nbody",
        HEAD + b"\r\n" + b">" * 500_000 + b"\r\nbody",
        HEAD + b"Content-Type: text/plain; format=flowed\r\n\r\n" + b"word \r\n" * 300_000 + b"body",
    ],
    ids=["headers", "words", "addresses", "folds", "parameters", "pieces", "quotes", "marks", "flowed"],
)
def test_no_header_and_no_body_makes_reading_take_for_ever(data: bytes) -> None:
    result = converted(data)
    assert result.title.startswith("The boat")
    assert result.text.endswith("body")


def test_a_message_cut_off_anywhere_gives_what_there_is() -> None:
    whole = HEAD + multi("mixed", PLAIN, HTML, part("text/csv; name=t.csv", b"a,b\r\n1,2"))
    for end in range(len(HEAD), len(whole), 7):
        assert converted(whole[:end]).title == "The boat"


def test_flowed_lines_join_and_others_do_not() -> None:
    assert flowed("a \nb\nc\n-- \nd", drops_space=False) == "a b\nc\n-- \nd"
    assert flowed("over\nin \nfull \nstop", drops_space=True) == "over\ninfullstop"


# Outlook

SENT = dt.datetime(2024, 2, 5, 8, 30, tzinfo=dt.UTC)


def recipient(name: str, address: str, kind: int) -> Storage:
    return message(header=8, n0C15=kind, t3001=name, t39FE=address)


def test_an_outlook_message_is_read_like_any_other() -> None:
    inner = message(header=24, t0037="Mast", t1000="The mast is ash.", t0C1A="Cy")
    storage = {
        **message(
            attached=[
                message(header=8, t3707="t.csv", b3701=b"a,b\n1,2"),
                message(header=8, t3707="plan.pdf", b3701=b"%PDF-1.7" + bytes(6000)),
                {**message(header=8, t3001="Mast"), "__substg1.0_3701000D": inner},
            ],
            d0039=SENT,
            t0037="The boat",
            t0C1A="Ann",
            t5D01="ann@example.org",
            t1000="Bring oars.\r\n",
        ),
        "__recip_version1.0_#00000000": recipient("Bob", "bob@example.org", 1),
        "__recip_version1.0_#00000001": recipient("Cy", "/O=EX/CN=CY", 2),
    }
    result = converted(ole(storage), "a.msg")
    assert (result.title, result.file_type) == ("The boat", "msg")
    assert result.text == (
        "# The boat\n\nFrom: Ann <ann@example.org>\nTo: Bob <bob@example.org>\nCc: Cy\n"
        "Date: Mon, 05 Feb 2024 08:30:00 +0000\n\n## Content\n\nBring oars.\n\n"
        "Attachments: t.csv, plan.pdf, Mast\n\n"
        "## Attachment: t.csv\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n\n"
        "## Attachment: Mast\n\n### Mast\n\nFrom: Cy\n\n#### Content\n\nThe mast is ash."
    )
    assert "(plan.pdf)" in result.notice


def test_an_outlook_message_of_old_code_pages_html_or_packed_rtf_is_read() -> None:
    old = message(a0037="Лодка".encode("cp1251"), a1000="Весла".encode("cp1251"), n3FFD=1251)
    assert converted(ole(old), "a.msg").text == "# Лодка\n\n## Content\n\nВесла"
    page = message(t0037="Page", b1013="<p>Fünf <b>Boote</b></p>".encode())
    assert converted(ole(page), "a.msg").text == "# Page\n\n## Content\n\nFünf **Boote**"
    rich = rb"{\rtf1\ansi\ansicpg1252 Caf\'e9 {\*\htmltag64 <p>}at nine\par}"
    packed = len(rich).to_bytes(4, "little") * 2 + b"MELA" + bytes(4) + rich
    assert converted(ole(message(t0037="Rich", b1009=packed)), "a.msg").text == (
        "# Rich\n\n## Content\n\nCafé at nine"
    )


def test_messages_within_outlook_messages_end_somewhere() -> None:
    storage = message(header=24, t0037="bottom", t1000="deep")
    for depth in range(60):
        box = {**message(header=8), "__substg1.0_3701000D": storage}
        storage = message(attached=[box], header=24, t0037=f"level {depth}")
    result = converted(ole(storage), "a.msg")
    assert "level 59" in result.text
    assert "not indexed" in result.notice


def test_a_damaged_outlook_message_gives_what_is_left_of_it_or_a_clear_error() -> None:
    whole = ole(message(t0037="The boat", t1000="words " * 2000, t0C1A="Ann"))
    lost = bytearray(whole)
    entry = lost.index("__substg1.0_1000001F".encode("utf-16-le"))
    lost[entry + 116 : entry + 120] = b"\xff\xff\xff\x00"  # where its body begins
    result = converted(bytes(lost), "a.msg")
    assert result.text == "# The boat\n\nFrom: Ann"
    assert result.notice == "a.msg is damaged; what could be read of the message was indexed."
    for end in range(600, len(whole), 512):
        assert error(whole[:end], "a.msg").startswith("a.msg ")
    noisy = bytearray(whole)
    for place in range(512, len(noisy), 37):
        noisy[place] ^= zlib.crc32(bytes([place & 255])) & 255
    assert error(bytes(noisy), "a.msg").startswith("a.msg ")


def test_another_ole_file_is_not_taken_for_a_message() -> None:
    assert "old Word document" in error(ole({"WordDocument": bytes(5000)}), "a.msg")
