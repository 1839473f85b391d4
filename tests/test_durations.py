"""How a length of time is written: one grammar for questions and settings."""

from datetime import timedelta

import pytest

from catalog.durations import duration
from selector.values import BadQuestion
from selector.values import duration as asked_for


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("1s", timedelta(seconds=1)),
        ("90m", timedelta(minutes=90)),
        ("24h", timedelta(days=1)),
        ("3650d", timedelta(days=3650)),
    ],
)
def test_a_duration_is_a_whole_number_and_a_unit(text: str, length: timedelta) -> None:
    assert duration(text) == length
    assert asked_for("max_age", text) == length


@pytest.mark.parametrize("text", ["", "0s", "10", "1.5h", "-1m", "1 h", "1H", "1w", "3651d", "١m", "1h\n"])
def test_anything_else_is_none_and_a_question_with_it_is_refused(text: str) -> None:
    assert duration(text) is None
    with pytest.raises(BadQuestion, match="max_age"):
        asked_for("max_age", text)
