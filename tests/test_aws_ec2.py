"""AWS's feeds through the real boto3: what is asked, in which region, and what goes wrong."""

import gzip
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import simcloud
from catalog.facts import Fact, Machine, Note, Offered, Price, Region
from catalog.words import Purchase
from collectors.aws import Aws
from collectors.aws_ec2 import Ec2
from collectors.base import (
    AuthFailed,
    Cell,
    Config,
    Drift,
    Feed,
    NotServed,
    Page,
    ProviderError,
    Throttled,
    Unavailable,
)
from tests.support.canned import Canned, canned
from tests.support.contract import counted_calls
from tests.support.ec2 import Answer, Asked, Call, ec2, plain, refusal
from tests.support.pages import NOW, cases
from tests.test_aws_pricelist import document, row

KEYS = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "invented"}


def config(server: Asked, **more: Any) -> Config:
    return Config(KEYS, endpoints={"ec2": server.url}, **more)


def feed(name: str, settings: Config) -> Feed:
    (found,) = (one for one in Aws(settings).feeds() if one.name == name)
    return found


def fetched(name: str, server: Asked, region: str = "us-east-1", **more: Any) -> list[Page]:
    return list(feed(name, config(server, **more)).fetch(Cell("aws", name, region), NOW, {}))


def facts(name: str, server: Asked, region: str = "us-east-1") -> list[Fact]:
    reader = feed(name, config(server))
    found = (item for page in fetched(name, server, region) for item in reader.parse(page))
    return [item for item in found if not isinstance(item, Note)]


def recorded(name: str) -> Mapping[str, Any]:
    (case,) = (case for case in cases("aws") if case.name == name)
    return plain(case.page.body)


def region_of_everything(call: Call) -> Answer:
    """us-west-2 as its recorded pages have it."""
    if call.action == "DescribeInstanceTypes":
        return {"InstanceTypes": recorded("types")["InstanceTypes"]}
    if call.action == "DescribeSpotPriceHistory":
        return recorded("history")
    key = {
        "DescribeAvailabilityZones": "AvailabilityZones",
        "DescribeInstanceTypeOfferings": "InstanceTypeOfferings",
    }.get(call.action)
    return {key: recorded("offerings")[key]} if key else recorded("regions")


@pytest.mark.parametrize(
    ("name", "pages"),
    [("places", ["regions"]), ("machines", ["types", "offerings"]), ("spot", ["history"])],
)
def test_what_comes_over_the_wire_is_what_the_recorded_pages_hold(name: str, pages: list[str]) -> None:
    with ec2(region_of_everything) as server:
        bodies = [json.loads(page.body) for page in fetched(name, server, "us-west-2")]
    assert bodies == [recorded(page) for page in pages]


def test_every_call_is_signed_for_ec2_in_its_own_region(monkeypatch: pytest.MonkeyPatch) -> None:
    """B008, B136, B137: an endpoint of ours does not change the region, and no environment sets it."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", "ap-south-1")
    with ec2(region_of_everything) as server:
        fetched("machines", server, "eu-west-1")
        fetched("places", server, "")
    assert server.actions() == [
        "DescribeAvailabilityZones eu-west-1",
        "DescribeInstanceTypes eu-west-1",
        "DescribeInstanceTypeOfferings eu-west-1",
        "DescribeRegions us-east-1",
    ]
    assert {call.service for call in server.calls} == {"ec2"}


def test_all_regions_are_asked_for_and_all_zones() -> None:
    with ec2(region_of_everything) as server:
        fetched("places", server, "")
        fetched("machines", server)
    asked = {call.action: call.parameters for call in server.calls}
    assert asked["DescribeRegions"]["AllRegions"] == "true"
    assert asked["DescribeAvailabilityZones"]["AllAvailabilityZones"] == "true"


def test_types_are_asked_for_by_family_and_offerings_by_whole_names() -> None:
    with ec2(region_of_everything) as server:
        fetched("machines", server)
    asked = {call.action: call for call in server.calls}
    assert asked["DescribeInstanceTypes"].values("Filter.1.Value") == ["p*", "g*", "trn*", "inf*", "dl*", "vt*"]
    offerings = asked["DescribeInstanceTypeOfferings"]
    assert offerings.parameters["LocationType"] == "availability-zone-id"
    names = [one["InstanceType"] for one in recorded("types")["InstanceTypes"]]
    assert offerings.values("Filter.1.Value") == names


def test_more_types_than_one_filter_takes_are_asked_for_in_turn() -> None:
    def answer(call: Call) -> Answer:
        if call.action == "DescribeInstanceTypes":
            return {"InstanceTypes": [{"InstanceType": f"g0.{number}xlarge"} for number in range(450)]}
        return region_of_everything(call)

    with ec2(answer) as server:
        fetched("machines", server)
    asked = [call for call in server.calls if call.action == "DescribeInstanceTypeOfferings"]
    assert [len(call.values("Filter.1.Value")) for call in asked] == [200, 200, 50]


def test_a_region_without_accelerators_is_a_whole_answer() -> None:
    def answer(call: Call) -> Answer:
        return {"InstanceTypes": []} if call.action == "DescribeInstanceTypes" else region_of_everything(call)

    with ec2(answer) as server:
        first, second = fetched("machines", server)
    assert json.loads(first.body) == {"InstanceTypes": []}
    assert json.loads(second.body)["InstanceTypeOfferings"] == []


def test_types_that_came_and_offerings_that_failed_are_a_failed_cell() -> None:
    """B066: nothing is handed over, so nothing can be stored."""
    html = Canned(500, b"<!doctype html><html><body>Internal Server Error</body></html>")

    def answer(call: Call) -> Answer:
        return html if call.action == "DescribeInstanceTypeOfferings" else region_of_everything(call)

    with ec2(answer) as server:
        pages = feed("machines", config(server)).fetch(Cell("aws", "machines", "us-east-1"), NOW, {})
        with pytest.raises(Unavailable, match="DescribeInstanceTypeOfferings"):
            next(pages)


def spot(zone: str, price: str) -> dict[str, str]:
    return {
        "InstanceType": "p5.48xlarge",
        "AvailabilityZone": zone,
        "ProductDescription": "Linux/UNIX",
        "SpotPrice": price,
        "Timestamp": "2026-05-01T00:00:00Z",
    }


def pages_of_spot(pages: Mapping[str, Answer]) -> Any:
    """Answers by the token that the request carries."""
    return lambda call: pages[call.parameters.get("NextToken", "")]


def test_an_empty_first_page_is_not_the_end_and_an_empty_token_is() -> None:
    """B053: three requests, none with an empty token. B005: both zones have their price."""
    pages: dict[str, Answer] = {
        "": {"SpotPriceHistory": [], "NextToken": "t1"},
        "t1": {"SpotPriceHistory": [spot("us-east-1a", "0.11")], "NextToken": "t2"},
        "t2": {"SpotPriceHistory": [spot("us-east-1b", "0.12")], "NextToken": ""},
    }
    with ec2(pages_of_spot(pages)) as server:
        found = facts("spot", server)
    assert [call.parameters.get("NextToken") for call in server.calls] == [None, "t1", "t2"]
    assert {item.zone: item.nanos for item in found if isinstance(item, Price)} == {
        "us-east-1a": 110_000_000,
        "us-east-1b": 120_000_000,
    }


def test_a_zone_whose_rows_are_on_two_pages_has_one_price() -> None:
    """B056."""
    older = spot("us-east-1a", "7.90") | {"Timestamp": "2026-03-01T00:00:00Z"}
    pages: dict[str, Answer] = {
        "": {"SpotPriceHistory": [spot("us-east-1a", "7.34")], "NextToken": "t1"},
        "t1": {"SpotPriceHistory": [older]},
    }
    with ec2(pages_of_spot(pages)) as server:
        found = facts("spot", server)
    assert [item.nanos for item in found if isinstance(item, Price)] == [7_340_000_000]


def test_a_token_that_comes_twice_is_no_whole_list() -> None:
    """B053."""
    same: Answer = {"SpotPriceHistory": [spot("us-east-1a", "0.11")], "NextToken": "again"}
    with ec2(lambda _: same) as server, pytest.raises(Drift, match="twice"):
        fetched("spot", server)
    assert len(server.calls) == 2


def test_a_page_that_fails_after_others_came_fails_the_cell() -> None:
    """B005: no zone gets a price of 0 for a datum that did not come."""
    pages: dict[str, Answer] = {
        "": {"SpotPriceHistory": [spot("us-east-1a", "0.0069")], "NextToken": "t1"},
        "t1": refusal("InternalError", 500),
    }
    with ec2(pages_of_spot(pages)) as server, pytest.raises(Unavailable):
        fetched("spot", server)


def test_spot_is_asked_for_from_now_on_under_both_descriptions_of_linux() -> None:
    """B024."""
    with ec2(region_of_everything) as server:
        fetched("spot", server)
    (call,) = server.calls
    assert call.parameters["StartTime"] == "2026-11-30T12:00:00Z"
    assert call.values("ProductDescription") == ["Linux/UNIX", "Linux/UNIX (Amazon VPC)"]
    assert call.values("Filter.1.Value")[0] == "p*"


def test_aws_china_is_asked_at_home_and_billed_in_yuan() -> None:
    china = {"regions": ("cn-north-1",)}

    def answer(call: Call) -> Answer:
        told = json.dumps(region_of_everything(call), default=str).replace('"us-east-1', '"cn-north-1')
        found: Answer = json.loads(told)
        return found

    with ec2(answer) as server:
        fetched("places", server, "", **china)
        (page,) = fetched("spot", server, "cn-north-1", **china)
        assert {
            item.currency for item in feed("spot", config(server, **china)).parse(page) if isinstance(item, Price)
        } == {"CNY"}
    assert server.actions() == ["DescribeRegions cn-north-1", "DescribeSpotPriceHistory cn-north-1"]


def opt_in(status: str | None, refused: str = "AuthFailure") -> Any:
    """A region that refuses, and a home region that says whether it is enabled: not at all for None."""

    def answer(call: Call) -> Answer:
        if call.region != "us-east-1" or status is None:
            return refusal(refused, 401)
        return {"Regions": [{"RegionName": call.values("RegionName")[0], "OptInStatus": status}]}

    return answer


@pytest.mark.parametrize("code", ["AuthFailure", "OptInRequired", "UnrecognizedClientException"])
def test_a_region_that_is_not_enabled_is_not_served_and_the_account_is_fine(code: str) -> None:
    """B061."""
    with ec2(opt_in("not-opted-in", code)) as server, pytest.raises(NotServed, match="me-central-1 is not enabled"):
        fetched("machines", server, "me-central-1")
    assert server.actions()[-1] == "DescribeRegions us-east-1"


@pytest.mark.parametrize("status", ["opted-in", "opt-in-not-required", None])
def test_credentials_refused_elsewhere_too_are_refused(status: str | None) -> None:
    with ec2(opt_in(status)) as server, pytest.raises(AuthFailed, match="AWS_ACCESS_KEY_ID"):
        fetched("machines", server, "me-central-1")


def test_a_home_region_that_does_not_answer_leaves_the_account_alone() -> None:
    def answer(call: Call) -> Answer:
        return refusal("InternalError", 500) if call.region == "us-east-1" else refusal("AuthFailure", 401)

    with ec2(answer) as server, pytest.raises(Unavailable):
        fetched("machines", server, "me-central-1")


@pytest.mark.parametrize(
    ("code", "status", "expected", "said"),
    [
        ("RequestLimitExceeded", 503, Throttled, "RequestLimitExceeded"),
        ("Throttling", 400, Throttled, "Throttling"),
        ("UnauthorizedOperation", 403, NotServed, "ec2:DescribeSpotPriceHistory; add it to their policy"),
        ("AccessDenied", 403, NotServed, "ec2:DescribeSpotPriceHistory"),
        ("AccessDeniedException", 400, NotServed, "ec2:DescribeSpotPriceHistory"),
        ("InvalidClientTokenId", 403, AuthFailed, "refused"),
        ("SignatureDoesNotMatch", 403, AuthFailed, "refused"),
        ("AuthFailure", 401, AuthFailed, "refused"),
        ("InternalError", 500, Unavailable, "InternalError"),
        ("Unavailable", 503, Unavailable, "HTTP 503"),
        ("InvalidParameterValue", 400, Drift, "InvalidParameterValue"),
    ],
)
def test_each_error_of_ec2_has_its_meaning(code: str, status: int, expected: type[ProviderError], said: str) -> None:
    with ec2(lambda _: refusal(code, status)) as server, pytest.raises(expected, match=said) as caught:
        fetched("spot", server)
    assert type(caught.value) is expected
    assert len(server.calls) == 1, "one attempt: retries are not the SDK's business here"


def test_a_forbidden_action_is_off_and_the_rest_of_the_account_goes_on() -> None:
    """Its price list too, which needs no right at all."""

    def answer(call: Call) -> Answer:
        return refusal("UnauthorizedOperation", 403) if call.action == "DescribeRegions" else region_of_everything(call)

    with ec2(answer) as server, canned(Canned(200, document([row("p5.48xlarge", "55.04")]))) as files:
        both = Config(KEYS, endpoints={"ec2": server.url, "price_list": files.url})
        with pytest.raises(NotServed, match="ec2:DescribeRegions"):
            list(feed("places", both).fetch(Cell("aws", "places"), NOW, {}))
        read = {
            name: [
                item
                for page in feed(name, both).fetch(Cell("aws", name, "us-east-1"), NOW, {})
                for item in feed(name, both).parse(page)
            ]
            for name in ("machines", "spot", "prices")
        }
    assert all(read.values())
    assert [one.nanos for one in read["prices"] if isinstance(one, Price)] == [55_040_000_000]


@pytest.mark.parametrize(("code", "status", "expected"), [("AccessDenied", 403, AuthFailed), ("X", 503, Unavailable)])
def test_a_role_that_may_not_be_taken_is_bad_credentials_and_no_missing_right_of_ec2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, status: int, expected: type[ProviderError]
) -> None:
    profile = "[profile work]\nrole_arn = arn:aws:iam::1:role/r\nsource_profile = keys\nregion = us-east-1\n"
    keys = "[profile keys]\naws_access_key_id = AKIDEXAMPLE\naws_secret_access_key = invented\n"
    (tmp_path / "config").write_text(profile + keys, "utf-8")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    with ec2(lambda _: refusal(code, status)) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", server.url)
        spot_feed = feed("spot", Config({"AWS_PROFILE": "work"}, endpoints={"ec2": server.url}))
        with pytest.raises(expected, match="AssumeRole"):
            list(spot_feed.fetch(Cell("aws", "spot", "us-east-1"), NOW, {}))
    assert {call.action for call in server.calls} == {"AssumeRole"}


def test_an_answer_without_its_list_is_drift_and_no_empty_one() -> None:
    with ec2(lambda _: {}) as server, pytest.raises(Drift, match="holds no SpotPriceHistory") as caught:
        fetched("spot", server)
    assert caught.value.page is not None
    assert b"DescribeSpotPriceHistoryResponse" in caught.value.page.body, "what came is kept for a report"


def test_an_answer_that_cannot_be_read_is_kept_for_a_report() -> None:
    with canned(Canned(200, b"<html>hello</html>")) as server, pytest.raises(Drift) as caught:
        list(feed("spot", Config(KEYS, endpoints={"ec2": server.url})).fetch(Cell("aws", "spot", "us-east-1"), NOW, {}))
    assert caught.value.page is not None
    assert caught.value.page.body == b"<html>hello</html>"


def of_canned(server_url: str) -> list[Page]:
    built = feed("spot", Config(KEYS, endpoints={"ec2": server_url}))
    return list(built.fetch(Cell("aws", "spot", "us-east-1"), NOW, {}))


def test_a_body_that_swells_beyond_64_mib_is_given_up_and_its_beginning_kept() -> None:
    """Some 65 KB on the wire."""
    swollen = Canned(200, gzip.compress(b" " * (65 * 1024 * 1024)), {"Content-Encoding": "gzip"})
    with canned(swollen) as server, pytest.raises(Drift, match="larger than 67108864 bytes") as caught:
        of_canned(server.url)
    assert caught.value.page is not None
    assert caught.value.page.body == b" " * 64 * 1024


def test_an_answer_that_drips_for_ever_holds_no_poll_be_it_of_who_hands_out_the_credentials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """EC2's own is in the contract."""
    profile = "[profile work]\nrole_arn = arn:aws:iam::1:role/r\nsource_profile = keys\nregion = us-east-1\n"
    keys = "[profile keys]\naws_access_key_id = AKIDEXAMPLE\naws_secret_access_key = invented\n"
    (tmp_path / "config").write_text(profile + keys, "utf-8")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    with canned(Canned(200, b" " * 4000, drip_s=0.05)) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", server.url)
        told = Config({"AWS_PROFILE": "work"}, endpoints={"ec2": server.url}, timeout=timedelta(seconds=1))
        with pytest.raises(Unavailable, match="no whole answer within 1 s"):
            list(feed("spot", told).fetch(Cell("aws", "spot", "us-east-1"), NOW, {}))
        assert [b"AssumeRole" in body for _, _, body in server.requests] == [True]


def test_what_is_sent_is_what_was_signed() -> None:
    """The signature is computed anew over what came."""
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    with canned(Canned(200, b"")) as server, pytest.raises(Drift):
        of_canned(server.url)
    ((path, headers, body),) = server.requests
    said = {name.casefold(): value for name, value in headers.items()}
    signed = said["authorization"].partition("SignedHeaders=")[2].partition(",")[0].split(";")
    assert "content-type" in signed
    again = AWSRequest("POST", server.url + path, {name: said[name] for name in signed}, body)
    again.context["timestamp"] = said["x-amz-date"]
    signer = SigV4Auth(Credentials(KEYS["AWS_ACCESS_KEY_ID"], KEYS["AWS_SECRET_ACCESS_KEY"]), "ec2", "us-east-1")
    expected = signer.signature(signer.string_to_sign(again, signer.canonical_request(again)), again)
    assert said["authorization"].endswith(f"Signature={expected}")


def test_every_page_batch_and_question_to_the_home_region_waits_for_its_slot() -> None:
    def answer(call: Call) -> Answer:
        if call.action == "DescribeInstanceTypes" and "NextToken" not in call.parameters:
            some = [{"InstanceType": f"g0.{number}xlarge"} for number in range(450)]
            return {"InstanceTypes": some, "NextToken": "more"}
        return region_of_everything(call)

    with ec2(answer) as server, counted_calls() as calls:
        fetched("machines", server)
        assert len(calls) == len(server.calls) == 1 + 2 + 3
    with ec2(opt_in("not-opted-in")) as server, counted_calls() as calls:
        with pytest.raises(NotServed):
            fetched("machines", server, "me-central-1")
        assert len(calls) == len(server.calls) == 2


def test_throttling_hands_on_the_pause_that_is_asked_for() -> None:
    with canned(Canned(429, b"slow down", {"Retry-After": "7"})) as server, pytest.raises(Throttled) as caught:
        list(feed("spot", Config(KEYS, endpoints={"ec2": server.url})).fetch(Cell("aws", "spot", "us-east-1"), NOW, {}))
    assert caught.value.retry_after == timedelta(seconds=7)


@pytest.mark.parametrize(
    ("environ", "endpoint", "expected"),
    [
        ({"AWS_PROFILE": "no-such-profile"}, "http://127.0.0.1:9", AuthFailed),
        (KEYS, "not an address", Unavailable),
    ],
)
def test_settings_that_cannot_work_say_so(
    environ: Mapping[str, str], endpoint: str, expected: type[ProviderError]
) -> None:
    built = feed("spot", Config(environ, endpoints={"ec2": endpoint}))
    with pytest.raises(expected, match=r"PROFILE|ENDPOINTS"):
        list(built.fetch(Cell("aws", "spot", "us-east-1"), NOW, {}))


# --- an account beside the first

OF_THE_PROCESS = {
    "AWS_ACCESS_KEY_ID": "AKIDPROCESS",
    "AWS_SECRET_ACCESS_KEY": "the process's own",
    "AWS_SESSION_TOKEN": "token-of-the-process",
}
CONTAINER = "AWS_CONTAINER_CREDENTIALS_FULL_URI"
HERE = {"AWS_REGION": "us-east-1"}


def beside(server: Asked, environ: Mapping[str, str]) -> Config:
    return Config({**HERE, **environ}, beside=True, endpoints={"ec2": server.url})


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A process that has keys of its own, and files of profiles: `theirs` has keys, `empty` has none."""
    for name, value in OF_THE_PROCESS.items():
        monkeypatch.setenv(name, value)
    keys = "aws_access_key_id = AKIDTHEIRS\naws_secret_access_key = theirs\n"
    (tmp_path / "credentials").write_text(f"[default]\n{keys.replace('THEIRS', 'DEFAULT')}\n[theirs]\n{keys}")
    (tmp_path / "config").write_text("[profile empty]\nregion = us-east-1\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    return tmp_path


def signed_by(call: Call) -> tuple[str, str]:
    """The access key of a call's signature, and its session token."""
    key = call.headers["authorization"].partition("Credential=")[2].split("/")[0]
    return key, call.headers.get("x-amz-security-token", "")


@pytest.mark.usefixtures("process")
@pytest.mark.parametrize(("environ", "key"), [(KEYS, "AKIDEXAMPLE"), ({"AWS_PROFILE": "theirs"}, "AKIDTHEIRS")])
def test_another_account_is_signed_with_its_own_keys_and_never_with_those_of_the_process(
    environ: Mapping[str, str], key: str
) -> None:
    with ec2(region_of_everything) as server:
        list(feed("places", beside(server, environ)).fetch(Cell("aws", "places"), NOW, {}))
    assert [signed_by(call) for call in server.calls] == [(key, "")]


@pytest.mark.usefixtures("process")
@pytest.mark.parametrize("profile", ["empty", "no-such-profile"])
def test_a_profile_of_another_account_without_keys_falls_back_on_none_of_the_process(
    profile: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    handed_out = {
        "AccessKeyId": "AKIDCONTAINER",
        "SecretAccessKey": "x",
        "Token": "t",
        "Expiration": "2099-01-01T00:00:00Z",
    }
    with canned(Canned(200, json.dumps(handed_out).encode())) as container, ec2(region_of_everything) as server:
        monkeypatch.setenv(CONTAINER, f"{container.url}/role")
        with pytest.raises(AuthFailed):
            list(feed("places", beside(server, {"AWS_PROFILE": profile})).fetch(Cell("aws", "places"), NOW, {}))
        assert (server.calls, container.requests) == ([], [])


@pytest.mark.usefixtures("process")
@pytest.mark.parametrize(
    "name", ["AWS_WEB_IDENTITY_TOKEN_FILE", CONTAINER, "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONFIG_FILE"]
)
@pytest.mark.parametrize("more", [{}, KEYS, {"AWS_PROFILE": "theirs"}])
def test_a_variable_that_boto3_would_read_of_the_process_is_refused_for_another_account(
    name: str, more: Mapping[str, str]
) -> None:
    config = Config({**HERE, **more, name: "/somewhere"}, beside=True)
    off = Aws(config).off()
    assert set(off) == {"places", "machines", "spot", "stock"}
    assert all(said.startswith(f"{name} cannot be set for an account beside the first") for said in off.values())
    with pytest.raises(AuthFailed, match=name):
        Ec2(config, "us-east-1", NOW)
    first = Aws(Config(config.environ)).off().values()
    assert not any(name in said for said in first), "of the first account's process they are"


@pytest.mark.usefixtures("process")
def test_another_account_without_anything_to_sign_with_makes_no_call() -> None:
    assert not Aws(Config(HERE, beside=True)).account
    with pytest.raises(AuthFailed, match="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"):
        Ec2(Config(HERE, beside=True), "us-east-1", NOW)


@pytest.mark.parametrize(
    ("told", "is_on"),
    [
        ({"environ": KEYS}, False),
        ({"environ": KEYS | {"AWS_REGION": " "}}, False),
        ({"environ": KEYS | {"AWS_REGION": "cn-north-1"}}, True),
        ({"environ": KEYS | {"AWS_DEFAULT_REGION": "cn-north-1"}}, True),
        ({"environ": KEYS, "regions": ("cn-north-1",)}, True),
    ],
)
def test_keys_of_another_account_are_sent_nowhere_until_its_settings_tell_its_partition(
    told: dict[str, Any], *, is_on: bool
) -> None:
    built = Aws(Config(**told, beside=True))
    assert (not built.off()) is is_on
    if is_on:
        with ec2(region_of_everything) as server:
            config = Config(**told, beside=True, endpoints={"ec2": server.url})
            list(feed("places", config).fetch(Cell("aws", "places"), NOW, {}))
        assert server.actions() == ["DescribeRegions cn-north-1"]
    else:
        assert set(built.off()) == {"prices", "places", "machines", "spot", "stock", "scores"}
        assert all("AWS_REGION" in said and "REGIONS" in said for said in built.off().values())
        assert list(built.feeds()) == []
    assert not Aws(Config(KEYS)).off(), "the first account is of AWS unless something else is said"


def test_regions_zones_and_offerings_reach_the_facts() -> None:
    """T11, end to end."""
    with ec2(region_of_everything) as server:
        regions = [item for item in facts("places", server, "") if isinstance(item, Region)]
        found = facts("machines", server, "us-west-2")
    assert {item.region for item in regions if item.enabled} == {"us-east-1", "us-west-2", "ap-east-1"}
    assert {item.zone_id for item in found if isinstance(item, Offered)} == {"usw2-az1", "usw2-az2", "usw2-az3"}
    p5e = next(item for item in found if isinstance(item, Machine) and item.instance_type == "p5e.48xlarge")
    assert p5e.purchases == {Purchase.CAPACITY_BLOCK, Purchase.SPOT}


def test_the_simulated_cloud_is_read_without_a_surprise() -> None:
    with simcloud.start("demo") as sim:
        services = ("ec2", "price_list", "pricing", "spot_advisor")
        endpoints = dict.fromkeys(services, sim.url("aws"))
        keys = {name: value for name, value in sim.env().items() if name.startswith("AWS_")}
        found = {
            one.name: [
                item
                for cell in one.cells(("us-east-1",))
                for page in one.fetch(cell, datetime.now(UTC), {})  # its prices begin a day before it does
                for item in one.parse(page)
            ]
            for one in Aws(Config(keys, endpoints=endpoints, scores=True)).feeds()
        }
    assert {name for name, items in found.items() if items} == {
        "places", "machines", "spot", "stock", "scores", "prices",
    }  # fmt: skip
    known = {item.instance_type for item in found["machines"] if isinstance(item, Machine) and item.gpu}
    priced = {item.instance_type for item in found["prices"] if isinstance(item, Price)}
    assert priced
    assert priced <= known
    kinds = {item.kind for items in found.values() for item in items if isinstance(item, Note)}
    assert kinds <= {"dearer_reserved_option", "non_positive_price"}
