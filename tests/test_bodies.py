"""Bodies that could be read in two ways: nothing of them is taken, and the answer names what is wrong."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from api.guard import MAX_BODY_BYTES
from tests.support.filled import Server, problem_of, served, v100_at_tencent

JSON = {"Content-Type": "application/json"}
LAUNCH = (
    b'{"provider": "tencent", "region": "ap-nanjing", "zone": "ap-nanjing-1", "instance_type": "GN10Xp.2XLARGE40", '
    b'"purchase": "on_demand", "outcome": "error", "code": "ResourceInsufficient.SpecifiedInstanceType"}'
)
ONE_LAUNCH = [b"provider", b"region", b"zone", b"instance_type", b"purchase", b"outcome", b"code"]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    filled = v100_at_tencent(tmp_path)
    with served(filled) as running:
        yield running
    filled.engine.dispose()


@pytest.mark.parametrize("name", ONE_LAUNCH)
def test_a_launch_that_says_something_twice_is_refused_by_that_name(server: Server, name: bytes) -> None:
    for again in (b', "' + name + b'": "ok"}', b', "\\u%04x' % name[0] + name[1:] + b'": null}'):
        response = server.client.post("/launches", content=LAUNCH[:-1] + again, headers=JSON)
        problem = problem_of(response, 422)
        assert (problem["parameter"], problem["did_you_mean"]) == (name.decode(), [])
        assert problem["detail"] == f"{name.decode()} is there 2 times: say it once."
    assert server.get("/launches")["items"] == []


@pytest.mark.parametrize(
    ("content", "parameter", "detail"),
    [
        (b'{"providers": ["aws"], "providers": []}', "providers", "providers is there 2 times: say it once."),
        (b'{"feeds": [], "feeds": [], "feeds": []}', "feeds", "feeds is there 3 times: say it once."),
        (b'{"spec": {"gpu": "v100", "gpu": "t4"}}', "spec", "spec.gpu is there 2 times: say it once."),
        (b'{"feeds": [{"a": 1, "a": 1}]}', "feeds", "feeds[0].a is there 2 times: say it once."),
        (b'[{"a": 1, "a": 1}]', "body", "body[0].a is there 2 times: say it once."),
    ],
)
def test_a_name_that_is_there_twice_is_refused_wherever_it_stands(
    server: Server, content: bytes, parameter: str, detail: str
) -> None:
    problem = problem_of(server.client.post("/sync", content=content, headers=JSON), 422)
    assert (problem["parameter"], problem["detail"]) == (parameter, detail)


@pytest.mark.parametrize("half", [b"\\ud800", b"\\udfff", b"\\ud800\\ud800", b"\\ud83dx"])
@pytest.mark.parametrize("name", ONE_LAUNCH)
def test_half_a_character_in_a_launch_is_refused_by_the_name_of_its_field(
    server: Server, name: bytes, half: bytes
) -> None:
    began, value = LAUNCH.split(b'"' + name + b'": "')
    content = began + b'"' + name + b'": "' + half + value
    problem = problem_of(server.client.post("/launches", content=content, headers=JSON), 422)
    assert problem["parameter"] == name.decode()
    assert problem["detail"].startswith(f"{name.decode()} holds half of a surrogate pair, {half[:6].decode()}: ")
    assert server.get("/launches")["items"] == []


@pytest.mark.parametrize(
    ("content", "parameter", "said"),
    [
        (b'{"providers": ["aws", "t\\ud800"]}', "providers", r"providers[1] holds half of a surrogate pair, \ud800: "),
        (b'{"\\udc00": 1}', r"\udc00", r"\udc00 holds half of a surrogate pair, \udc00: "),
        (b'{"spec": {"a\\ud800": 1}}', "spec", r"spec.a\ud800 holds half of a surrogate pair, \ud800: "),
        (b'"\\ud800"', "body", r"body holds half of a surrogate pair, \ud800: "),
    ],
)
def test_half_a_character_is_refused_wherever_it_stands(
    server: Server, content: bytes, parameter: str, said: str
) -> None:
    problem = problem_of(server.client.post("/sync", content=content, headers=JSON), 422)
    assert problem["parameter"] == parameter
    assert problem["detail"].startswith(said)


def test_a_whole_character_beyond_16_bits_is_no_half_one(server: Server) -> None:
    problem = server.post("/sync", {"providers": ["\N{GRINNING FACE}"]}, 422)
    assert problem["detail"] == "\N{GRINNING FACE} is not known here."


@pytest.mark.parametrize("content", [b"\xed\xa0\x80", b'{"feeds": ["\xed\xa0\x80"]}', b'{"feeds": ["\xff"]}', b"{,}"])
def test_what_is_no_json_at_all_is_a_problem_of_its_own(server: Server, content: bytes) -> None:
    response = server.client.post("/sync", content=content, headers=JSON)
    assert problem_of(response, 400)["detail"].startswith("The body is not JSON: ")


@pytest.mark.parametrize(
    "content",
    [
        b'{"feeds": ' + b"[" * (MAX_BODY_BYTES // 2 - 8) + b"]" * (MAX_BODY_BYTES // 2 - 8) + b"}",
        b'{"feeds": ' + b'{"a":' * 900 + b"1" + b"}" * 900 + b"}",
        b'{"feeds": ' + b"9" * 5000 + b"}",
        b'{"feeds": 1e99999}',
        b"{" + b",".join(b'"%x": 1' % number for number in range(5000)) + b"}",
    ],
    ids=["deep lists", "deep objects", "a long number", "a large number", "many names"],
)
def test_a_body_that_is_odd_in_size_is_refused_like_any_other_of_another_shape(server: Server, content: bytes) -> None:
    assert len(content) <= MAX_BODY_BYTES
    problem = problem_of(server.client.post("/sync", content=content, headers=JSON), 422)
    assert problem["detail"].startswith("The body is not as expected: ")
