"""No credential of a provider, and no control character of a terminal, is in what is shown, logged or kept of it."""

import json
from base64 import b64encode
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.facts import Note
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
