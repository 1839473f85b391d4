"""No credential of a provider, and no control character of a terminal, is in what is shown, logged or kept of it."""

import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from urllib.parse import quote, quote_plus, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.facts import Note
from collectors.credentials import obtained
from scheduler.scrub import Scrubber
from store.record import Answer

SECRET = 'Ab/9"ü+x\\key'
SCRUB = Scrubber({"CLOUD_SECRET": f" {SECRET}\n", "CLOUD_KEY_ID": "AKID1234567890"})


@pytest.mark.parametrize(
    "written",
    [
        str,
        lambda secret: json.dumps(secret)[1:-1],
        lambda secret: json.dumps(secret, ensure_ascii=False)[1:-1],
        quote,
        lambda secret: quote(secret, safe=""),
        quote_plus,
        lambda secret: repr(secret)[1:-1],
        lambda secret: ascii(secret)[1:-1],
    ],
)
def test_a_secret_is_masked_however_it_is_written(written: Callable[[str], str]) -> None:
    assert SCRUB.text(f"the key {written(SECRET)} was refused") == "the key *** was refused"
    assert SCRUB.body(f'{{"key": "{written(SECRET)}"}}'.encode()) == b'{"key": "***"}'


@pytest.mark.parametrize("after", ["", ":", ":a password", "\n"])
def test_a_secret_in_base64_is_masked_whatever_follows_it(after: str) -> None:
    text = SCRUB.text(f"Basic {b64encode(f'AKID1234567890{after}'.encode()).decode()}")
    assert text.startswith("Basic ***")
    assert b"AKID12345678".hex() not in text
    assert b64encode(b"AKID12345678").decode() not in text


@pytest.mark.parametrize("end", ["", "…", "...", "'", "…'"])
@pytest.mark.parametrize(("kept", "shown"), [(13, "***"), (8, "***"), (7, "AKID123")])
def test_the_beginning_of_a_secret_is_masked_where_a_text_was_cut_within_it(end: str, kept: int, shown: str) -> None:
    assert SCRUB.text(f"refused: {'AKID1234567890'[:kept]}{end}") == f"refused: {shown}{end}"


TOKEN = "FwoGZXIvYXdzEJr/abcd+efgh~ijkl&SECRETTOKEN=="
OF_TOKEN = Scrubber({"AWS_SESSION_TOKEN": TOKEN})
WRITTEN = {
    "JSON with its slashes escaped": TOKEN.replace("/", r"\/"),
    "JSON in JSON": TOKEN.replace("/", r"\\\/"),
    "JSON by number": TOKEN.replace("/", r"\u002f").replace("+", r"\u002B"),
    "Python by number": TOKEN.replace("/", r"\x2f"),
    "a URL, in lower case": re.sub("%..", lambda found: found[0].lower(), quote(TOKEN, safe="")),
    "a URL, one character of it": TOKEN.replace("~", "%7E"),
    "a URL, all but the slashes": quote(TOKEN, safe="/"),
    "a URL in a URL": quote(quote(TOKEN, safe=""), safe=""),
    "a URL in a URL in a URL": quote(quote(quote(TOKEN, safe=""), safe=""), safe=""),
    "a form": urlencode({"": TOKEN})[1:].replace("~", "%7e"),
    "HTML by name": TOKEN.replace("&", "&amp;").replace("/", "&sol;").replace("+", "&plus;"),
    "HTML by number": TOKEN.replace("+", "&#43;").replace("=", "&#061;").replace("/", "&#x2F;"),
    "HTML in HTML": TOKEN.replace("&", "&amp;amp;").replace("/", "&amp;#47;"),
    "HTML and a URL, mixed": TOKEN.replace("+", "%2b").replace("/", "&#X2f;"),
}


@pytest.mark.parametrize("written", WRITTEN.values(), ids=WRITTEN)
def test_a_secret_is_masked_in_whatever_encoding_somebody_repeats_it(written: str) -> None:
    assert OF_TOKEN.text(f"token={written}&more") == "token=***&more"
    assert OF_TOKEN.body(f"<html>{written}</html>".encode()) == b"<html>***</html>"


@pytest.mark.parametrize("written", WRITTEN.values(), ids=WRITTEN)
def test_the_beginning_of_a_secret_is_masked_in_any_encoding_cut_anywhere(written: str) -> None:
    for end in range(9, len(written)):
        assert OF_TOKEN.text(f"token={written[:end]}…") == "token=***…", end


@pytest.mark.parametrize("before", ["", "i", "id", "id:", "an id:", "another id:"])
@pytest.mark.parametrize("encode", [b64encode, urlsafe_b64encode])
def test_a_secret_in_base64_is_masked_whatever_stands_before_it(before: str, encode: Callable[[bytes], bytes]) -> None:
    """`Authorization: Basic` has `id:secret`. What is left of it are the bits of a character at each end."""
    text = OF_TOKEN.text(f"Basic {encode(f'{before}{TOKEN}'.encode()).decode()}")
    assert text.count("***") == 1
    assert len(text) < len("Basic ***") + len(b64encode(before.encode())) + 6


def test_a_token_that_was_had_is_as_secret_as_what_it_was_had_for() -> None:
    token = obtained("eyJ0eXAi.of-the-test_of_scrubbing.c2ln")
    assert Scrubber({}).body(f"{{'Authorization': 'Bearer {token}'}}".encode()) == b"{'Authorization': 'Bearer ***'}"
    assert Scrubber({}).text(f"Bearer {token[:20]}...") == "Bearer ***..."


def test_a_short_word_that_a_server_answers_with_is_no_token() -> None:
    obtained("local")
    assert Scrubber({}).text("a local server") == "a local server"


def test_a_page_of_any_bytes_is_as_it_came() -> None:
    every = bytes(range(256)) * 3
    assert OF_TOKEN.body(every) == every


def test_the_longer_of_two_secrets_is_masked_whole() -> None:
    assert Scrubber({"A_KEY": "abcd", "B_KEY": "abcdefgh"}).text("abcdefgh abcd") == "*** ***"


@pytest.mark.parametrize(("value", "masked"), [("", False), ("  ", False), ("abc", False), ("abcd", True)])
def test_what_is_shorter_than_four_characters_is_no_secret(value: str, masked: bool) -> None:
    text = f"a {value} b abc"
    assert (Scrubber({"KEY": value}).text(text) != text) is masked


@pytest.mark.parametrize(
    ("name", "harmless"),
    [
        ("AWS_REGION", True),
        ("AWS_DEFAULT_REGION", True),
        ("TENCENTCLOUD_REGION", True),
        ("AWS_PROFILE", True),
        ("AWS_RETRY_MODE", True),
        ("AWS_EC2_METADATA_DISABLED", True),
        ("AWS_ACCESS_KEY_ID", False),
        ("AWS_SECRET_ACCESS_KEY", False),
        ("AWS_SESSION_TOKEN", False),
        ("TENCENTCLOUD_SECRET_ID", False),
        ("TENCENTCLOUD_SECRET_KEY", False),
        ("RUNPOD_API_KEY", False),
        ("ANYTHING_ELSE", False),
    ],
)
def test_a_region_is_no_secret_and_what_is_not_known_to_be_harmless_is_one(name: str, harmless: bool) -> None:
    assert Scrubber({name: "us-east-1"}).text("in us-east-1") == ("in us-east-1" if harmless else "in ***")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J", r"\x1b[2J"),
        ("a\r\nb\tc\x00", r"a\r\nb\tc\x00"),
        ("\x9b31m", r"\x9b31m"),
        ("a\u202eb\u2028c", r"a\u202eb\u2028c"),
        ("\ud800", r"\ud800"),
        ("广州 é 🚀", "广州 é 🚀"),
    ],
)
def test_control_characters_are_written_out_and_letters_stay(text: str, shown: str) -> None:
    assert Scrubber({}).text(text) == shown


def test_a_page_keeps_its_control_characters_and_a_traceback_its_lines() -> None:
    assert SCRUB.body(b"\x1b\r\n\xff AKID1234567890") == b"\x1b\r\n\xff ***"
    assert SCRUB.lines("File x\n  AKID1234567890\n") == "File x\n  ***\n"


def test_all_that_an_answer_says_beside_its_facts_is_scrubbed() -> None:
    said = "AKID1234567890\x1b"
    answer = SCRUB.answer(Answer([], [Note("odd", said, record=True)], {said: 2, "windows": 1}, {"etag": said}, said))
    assert (answer.notes, answer.notes[0].record) == ([Note("odd", r"***\x1b")], True)
    assert (answer.skipped, answer.missing) == ({r"***\x1b": 2, "windows": 1}, r"***\x1b")
    assert answer.memo == {"etag": said}, "what the next fetch is told is the provider's own"


@given(st.text(min_size=4), st.text(), st.text())
def test_no_secret_is_left_in_any_text(secret: str, before: str, after: str) -> None:
    scrub = Scrubber({"KEY": secret})
    if len(secret.strip()) >= 4 and secret.strip() not in "***":
        assert secret.strip() not in scrub.lines(f"{before}{secret}{after}")
