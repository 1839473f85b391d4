"""Google Cloud through its real SDK: requests, paging, credentials, what each error means, zones that are missing."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from catalog.facts import Machine, Note, Offered, Region, Stock
from catalog.words import Evidence, Level, Purchase
from collectors.base import (
    AuthFailed,
    Cell,
    Config,
    Drift,
    NotConfigured,
    NotServed,
    Page,
    ProviderError,
    Throttled,
    Unavailable,
)
from collectors.gcp import Gcp
from collectors.gcp_api import failure
from collectors.gcp_auth import headers_of
from collectors.gcp_zones import Zones
from scheduler.scrub import Scrubber
from simcloud.sim import Sim, start
from tests.support.canned import Canned, canned
from tests.support.contract import SECRET, counted_calls
from tests.support.pages import NOW, cases
from tests.test_gcp import feed

Json = dict[str, Any]
KEY = {"GOOGLE_API_KEY": f"key-{SECRET}"}
AT_HALF_PAST = datetime(2026, 11, 30, 12, 0, 30, tzinfo=UTC)


def config(url: str, *regions: str, environ: Mapping[str, str] | None = None, scores: bool = False) -> Config:
    endpoints = {"compute": url, "billing": url}
    told = KEY if environ is None else environ
    return Config(told, regions, None, endpoints, scores=scores, timeout=timedelta(seconds=5))


def of_sim(sim: Sim, *regions: str, scores: bool = False) -> Config:
    return config(sim.url("gcp"), *regions, environ=sim.env(), scores=scores)


def pages(name: str, told: Config, place: str = "", part: str = "") -> list[Page]:
    return list(feed(name, told).fetch(Cell("gcp", name, place, part), NOW, {}))


def facts(name: str, told: Config, place: str = "", part: str = "") -> list[Any]:
    one = feed(name, told)
    return [item for page in one.fetch(Cell("gcp", name, place, part), NOW, {}) for item in one.parse(page)]


def error(code: int, reason: str = "", message: str = "so it is", **more: Any) -> bytes:
    errors = [{"domain": "global", "reason": reason, "message": message}] if reason else []
    return json.dumps({"error": {"code": code, "message": message, "errors": errors, **more}}).encode()


# --- what is asked


def test_a_call_names_project_and_key_and_the_most_results_a_page_may_have() -> None:
    with canned(Canned(200, b'{"items": []}')) as server:
        told = config(server.url, environ=KEY | {"GOOGLE_CLOUD_PROJECT": "acme"})
        with pytest.raises(Drift, match="items is empty"):
            facts("places", told)
    ((path, headers, _),) = server.requests
    assert path == "/compute/v1/projects/acme/regions?maxResults=500"
    assert headers["X-Goog-Api-Key"] == KEY["GOOGLE_API_KEY"]
    assert "Authorization" not in headers


def test_a_key_is_never_in_an_address() -> None:
    with start("demo", providers=("gcp",)) as sim:
        pages("prices", of_sim(sim))
    with canned(Canned(200, b'{"skus": [], "nextPageToken": ""}')) as server:
        told = Config(KEY, endpoints={"billing": server.url})
        with pytest.raises(Drift, match="no SKU of any machine"):
            facts("prices", told)
    ((path, headers, _),) = server.requests
    assert path == "/v1/services/6F81-5844-456A/skus?pageSize=5000&currencyCode=USD"
    assert {name.lower(): value for name, value in headers.items()}["x-goog-api-key"] == KEY["GOOGLE_API_KEY"]


def test_every_page_of_a_list_is_a_call_and_a_zone_may_be_on_several() -> None:
    with start("demo", providers=("gcp",)) as sim:
        whole = {(page.name, page.body) for page in pages("machines", of_sim(sim))}
        sim.options("gcp", page_size=7)
        before = len(sim.requests("gcp"))
        with counted_calls() as calls:
            found = {(page.name, page.body) for page in pages("machines", of_sim(sim))}
        assert found == whole
        assert len(calls) == len(sim.requests("gcp")) - before > 10


def test_a_page_token_that_comes_twice_is_drift() -> None:
    body = b'{"items": {"zones/r-a": {"machineTypes": []}}, "nextPageToken": "again"}'
    with canned(Canned(200, body)) as server, pytest.raises(Drift, match="same page token"):
        pages("machines", config(server.url))
    assert len(server.requests) == 2


def test_regions_that_are_named_are_the_only_ones() -> None:
    with start("demo", providers=("gcp",)) as sim:
        told = of_sim(sim, "us-east4", "mars-north1")
        by_place = {page.place: page for page in pages("machines", told)}
        assert set(by_place) == {"us-east4", "mars-north1"}
        assert {page.missing for page in by_place.values()} == {""}, "it would be partial for good"
        assert list(feed("machines", told).parse(by_place["mars-north1"])) == [Note("region_not_listed", "mars-north1")]
        assert [page.place for page in pages("prices", told)] == ["us-east4"]


def test_records_that_are_dropped_are_counted() -> None:
    with start("demo", providers=("gcp",)) as sim:
        first, *others = pages("machines", of_sim(sim))
        assert first.skipped == {"machine type without accelerator": 2}
        assert not [page for page in others if page.skipped]
        first, *others = pages("prices", of_sim(sim, "us-east4"))
        assert first.skipped["sku where no machine is"] > 50
        assert not others


def test_the_price_lists_cores_of_other_families_are_dropped_and_counted() -> None:
    """They are most of the list, and would all be kept in memory."""
    said = ["E2 Instance Core running in Iowa", "Spot Preemptible N2D AMD Instance Ram running in Iowa"]
    said += ["A2 Instance Core running in Iowa", "Nvidia Tesla T4 GPU running in Iowa", "Network Egress"]
    skus = [{"description": one, "serviceRegions": ["us-central1"]} for one in said]
    with canned(Canned(200, json.dumps({"skus": skus, "nextPageToken": ""}).encode())) as server:
        (page,) = pages("prices", Config(KEY, endpoints={"billing": server.url}))
    assert page.skipped == {"sku of a family without accelerator": 2, "sku of no machine": 1}
    assert [one["description"] for one in json.loads(page.body)["skus"]] == said[2:4]


# --- what is missing


def test_a_zone_that_google_cannot_ask_is_missing_and_never_sells_nothing() -> None:
    with start("demo", providers=("gcp",)) as sim:
        sim.set("gcp", {"kind": "zone", "zone": "us-east4-a"}, warning="UNREACHABLE")
        missing = {page.place: page.missing for page in pages("machines", of_sim(sim))}
        assert missing.pop("us-east4") == "us-east4-a: UNREACHABLE"
        assert set(missing.values()) == {""}
        assert {page.place for page in pages("prices", of_sim(sim)) if page.missing} == {"us-east4"}


def test_a_zone_among_the_unreachables_is_missing_too() -> None:
    body = {
        "items": {"zones/r1-a": {"machineTypes": [{"name": "n1-standard-8"}]}, "zones/r1-b": {}},
        "unreachables": ["projects/p/zones/r2-b"],
    }
    with canned(Canned(200, json.dumps(body).encode())) as server:
        zones = Zones.asked(config(server.url), NOW)
    assert {region: zones.missing(region) for region in zones.by_region()} == {"r1": "", "r2": "r2-b: unreachable"}


@pytest.mark.parametrize("body", [b"{}", b'{"items": null}', b'{"items": []}', b'{"items": {}}'])
def test_no_machine_in_any_zone_is_no_answer(body: bytes) -> None:
    with canned(Canned(200, body)) as server, pytest.raises(Drift):
        pages("machines", config(server.url))


@pytest.mark.parametrize("name", ["places", "machines"])
@pytest.mark.parametrize("body", [b'{"items": "\xff"}', b"\xff\xfe", b"\x80"])
def test_an_answer_that_is_no_text_is_drift(name: str, body: bytes) -> None:
    with canned(Canned(200, body)) as server, pytest.raises(Drift):
        facts(name, config(server.url))


# --- quotas


def quotas(told: Config, *kinds: str) -> dict[tuple[str, str], set[str]]:
    """(region, machine) -> what is said of its quotas."""
    found: dict[tuple[str, str], set[str]] = {}
    for one in facts("machines", told):
        if isinstance(one, Stock) and (one.instance_type in kinds or not kinds):
            found.setdefault((one.region, one.instance_type), set()).add(one.detail)
    return found


def test_the_quotas_of_a_region_are_its_machines_and_their_list_is_read_page_after_page() -> None:
    with start("demo", providers=("gcp",)) as sim:
        told = of_sim(sim)
        found = quotas(told, "a2-ultragpu-8g")
        sim.options("gcp", page_size=2)
        before = len(sim.requests("gcp", "regions"))
        assert quotas(told, "a2-ultragpu-8g") == found
        assert len(sim.requests("gcp", "regions")) - before == 3, "five regions"
        assert found == {
            ("us-central1", "a2-ultragpu-8g"): {"quota NVIDIA_A100_80GB_GPUS: 0 of 8 GPUs used"},
            ("asia-southeast1", "a2-ultragpu-8g"): {
                "restricted: NO_QUOTA: NVIDIA_A100_80GB_GPUS 0 of 0 GPUs used",
                "restricted: NO_QUOTA: PREEMPTIBLE_NVIDIA_A100_80GB_GPUS 0 of 0 GPUs used",
            },
        }
        where = {"kind": "quota", "metric": "NVIDIA_A100_80GB_GPUS", "region": "us-central1"}
        sim.set("gcp", where, limit=7, usage=1)
        assert quotas(told, "a2-ultragpu-8g")["us-central1", "a2-ultragpu-8g"] >= {
            "restricted: NO_QUOTA: NVIDIA_A100_80GB_GPUS 1 of 7 GPUs used, one machine takes 8"
        }


def test_a_missing_right_to_list_regions_loses_no_machine() -> None:
    with start("demo", providers=("gcp",)) as sim:
        told = of_sim(sim)
        before = {one for one in facts("machines", told) if isinstance(one, (Machine, Offered))}
        sim.options("gcp", may_list_regions=False)
        found = facts("machines", told)
        assert {one for one in found if isinstance(one, (Machine, Offered))} == before
        assert not [one for one in found if isinstance(one, Stock)]
        (said,) = {one.value for one in found if isinstance(one, Note) and one.kind == "quotas_not_read"}
        assert "lack compute.regions.list" in said
        with pytest.raises(NotServed, match=r"compute\.regions\.list"):
            facts("places", told)


@pytest.mark.parametrize(
    ("status", "reason", "expected"),
    [(503, "backendError", Unavailable), (403, "rateLimitExceeded", Throttled), (401, "authError", AuthFailed)],
)
def test_quotas_that_failed_are_not_quotas_that_cannot_be_read(
    status: int, reason: str, expected: type[ProviderError]
) -> None:
    with start("demo", providers=("gcp",)) as sim:
        sim.fault("gcp", "status", status=status, code=reason, message="no", match={"action": "regions"})
        with pytest.raises(expected):
            pages("machines", of_sim(sim))


# --- what goes wrong


@pytest.mark.parametrize("name", ["places", "machines", "prices"])
def test_the_sdk_asks_once_whatever_goes_wrong(name: str) -> None:
    """Its own policy asks again for ten minutes at 503."""
    for status in (401, 403, 429, 500, 503, 504):
        with canned(Canned(status, error(status, "backendError"))) as server, pytest.raises(ProviderError):
            pages(name, config(server.url))
        assert len(server.requests) == 1, status


@pytest.mark.parametrize(
    ("status", "body", "expected", "said"),
    [
        (403, error(403, "rateLimitExceeded", status="PERMISSION_DENIED"), Throttled, "rateLimitExceeded"),
        (403, error(403, "userRateLimitExceeded"), Throttled, ""),
        (429, error(429, status="RESOURCE_EXHAUSTED"), Throttled, ""),
        (429, b"", Throttled, ""),
        (403, error(403, "accessNotConfigured"), NotServed, "enable it"),
        (403, error(403, status="PERMISSION_DENIED", details=[{"reason": "SERVICE_DISABLED"}]), NotServed, "enable it"),
        (403, error(403, "forbidden"), NotServed, "lack compute.zones.list"),
        (403, error(403, details=[{"reason": "IAM_PERMISSION_DENIED"}]), NotServed, "lack compute.zones.list"),
        (403, b"<html>no</html>", Unavailable, "proxy"),
        (403, b"", Unavailable, "proxy"),
        (403, b"{}", AuthFailed, ""),
        (401, b"<html>no</html>", AuthFailed, ""),
        (401, error(401, "authError"), AuthFailed, ""),
        (400, error(400, details=[{"reason": "API_KEY_INVALID"}]), AuthFailed, "refused"),
        (400, error(400, "invalid", "bad filter"), Drift, "bad filter"),
        (404, error(404, "notFound"), NotServed, "GOOGLE_CLOUD_PROJECT"),
        (404, b"<html>", Drift, ""),
        (503, error(503, "backendError"), Unavailable, ""),
        (504, b"", Unavailable, ""),
        (302, b"", Drift, ""),
    ],
)
def test_an_error_has_its_meaning_by_its_reason_not_by_its_status(
    status: int, body: bytes, expected: type[ProviderError], said: str
) -> None:
    found = failure(status, {}, Page("gcp compute.zones.list", body, NOW), "compute.zones.list")
    assert type(found) is expected, found
    assert said in str(found)


@pytest.mark.parametrize(
    "body", [b"[]", b"7", b'{"error": 7}', b'{"error": {"errors": [7]}}', b'{"error": null}', b"{"]
)
def test_an_error_of_another_form_is_read_by_its_status(body: bytes) -> None:
    assert type(failure(503, {}, Page("gcp", body, NOW), "right")) is Unavailable


def test_a_quota_of_calls_a_minute_is_waited_for_until_the_next_minute() -> None:
    page = Page("gcp", error(403, "rateLimitExceeded"), AT_HALF_PAST)
    found = failure(403, {}, page, "right")
    assert isinstance(found, Throttled)
    assert found.retry_after == timedelta(seconds=30)
    asked = failure(403, {"retry-after": "7"}, page, "right")
    assert isinstance(asked, Throttled)
    assert asked.retry_after == timedelta(seconds=7)


def test_each_feed_meets_the_quota_as_throttling_and_a_disabled_api_as_none() -> None:
    for reason, expected in (("rateLimitExceeded", Throttled), ("accessNotConfigured", NotServed)):
        with start("demo", providers=("gcp",)) as sim:
            sim.fault("gcp", "status", status=403, code=reason, message="no")
            for name in ("places", "machines", "prices"):
                with pytest.raises(expected):
                    pages(name, of_sim(sim))


def test_a_wrong_key_is_refused_by_both_services() -> None:
    with start("demo", providers=("gcp",)) as sim:
        for name in ("places", "prices"):
            with pytest.raises(AuthFailed):
                pages(name, config(sim.url("gcp"), environ={"GOOGLE_API_KEY": "another"}))


# --- credentials


@pytest.mark.parametrize(
    ("environ", "feeds", "account"),
    [
        ({}, set(), False),
        ({"GOOGLE_API_KEY": "k"}, {"prices"}, True),
        ({"GOOGLE_CLOUD_PROJECT": "acme"}, set(), False),
        ({"GOOGLE_APPLICATION_CREDENTIALS": "/f"}, {"prices"}, True),
        (
            {"GOOGLE_APPLICATION_CREDENTIALS": "/f", "GOOGLE_CLOUD_PROJECT": "acme"},
            {"places", "machines", "prices"},
            True,
        ),
    ],
)
def test_the_credentials_say_which_feeds_run(environ: Mapping[str, str], feeds: set[str], account: bool) -> None:
    built = Gcp(Config(environ))
    assert ({one.name for one in built.feeds()}, built.account) == (feeds, account)
    assert set(built.off()) == {"places", "machines", "prices", "scores"} - feeds


def test_on_loopback_a_key_alone_is_enough_and_scores_are_asked_for_by_a_setting() -> None:
    built = Gcp(config("http://127.0.0.1:9"))
    assert {one.name for one in built.feeds()} == {"places", "machines", "prices"}
    assert built.off() == {"scores": "set GPUFARE_PROVIDERS__GCP__SCORES=true: it needs a right of its own"}
    assert {one.name for one in Gcp(config("http://127.0.0.1:9", scores=True)).feeds()} >= {"scores"}


def test_no_token_of_googles_is_had_for_a_server_on_this_machine() -> None:
    told = config("http://localhost:9", environ={"GOOGLE_APPLICATION_CREDENTIALS": "/nowhere"})
    assert headers_of(told, "compute") == {"Authorization": "Bearer loopback"}


@pytest.mark.parametrize("service", ["compute", "billing"])
@pytest.mark.parametrize("host", ["gcp.example", "10.0.0.7", "127.0.0.1.example"])
def test_over_plain_http_to_another_machine_no_credentials_go(service: str, host: str, tmp_path: Path) -> None:
    with canned(Canned(200, b"{}")) as server:
        account = service_account(tmp_path, f"{server.url}/token")
        environ = {"GOOGLE_APPLICATION_CREDENTIALS": account, "GOOGLE_CLOUD_PROJECT": "acme"}
        for known in (environ, environ | KEY):
            told = Config(known, endpoints={service: f"http://{host}:8080"})
            with pytest.raises(NotConfigured, match=service):
                headers_of(told, service)
    assert server.requests == []


def test_a_persons_credentials_turn_the_feed_off_with_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "person.json"
    path.write_text('{"type": "authorized_user", "client_id": "a", "client_secret": "b", "refresh_token": "c"}')
    with pytest.raises(NotConfigured, match="service account"):
        bearer(f"{path}")


def service_account(folder: Path, token_uri: str, **more: str) -> str:
    key = rsa.generate_private_key(65537, 2048).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    told = {"type": "service_account", "client_email": "a@b.c", "private_key": key.decode(), "token_uri": token_uri}
    path = folder / "account.json"
    path.write_text(json.dumps(told | more))
    return f"{path}"


def bearer(path: str) -> Mapping[str, str]:
    environ = {"GOOGLE_APPLICATION_CREDENTIALS": path, "GOOGLE_CLOUD_PROJECT": "acme"}
    return headers_of(Config(environ, timeout=timedelta(seconds=1)), "compute")


def test_a_token_of_an_account_is_a_secret_from_then_on(tmp_path: Path) -> None:
    token = "ya29.a0AfB_byC-SECRETTOKEN"
    body = json.dumps({"access_token": token, "expires_in": 3600, "token_type": "Bearer"}).encode()
    with canned(Canned(200, body, {"Content-Type": "application/json"})) as server:
        bearer(service_account(tmp_path, f"{server.url}/token"))
    assert Scrubber({}).text(f"no such thing: Bearer {token}") == "no such thing: Bearer ***"


def test_an_account_gets_a_token_in_one_call(tmp_path: Path) -> None:
    body = json.dumps({"access_token": "ya29.token", "expires_in": 3600, "token_type": "Bearer"}).encode()
    with canned(Canned(200, body, {"Content-Type": "application/json"})) as server, counted_calls() as calls:
        assert bearer(service_account(tmp_path, f"{server.url}/token")) == {"Authorization": "Bearer ya29.token"}
    ((path, _, sent),) = server.requests
    assert (path, len(calls)) == ("/token", 1)
    assert b"assertion=" in sent


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (Canned(400, b'{"error": "invalid_grant", "error_description": "Invalid JWT"}'), AuthFailed),
        (Canned(401, b'{"error": "unauthorized_client"}'), AuthFailed),
        (Canned(403, b"<html>blocked</html>"), Unavailable),
        (Canned(503, b"{}"), Unavailable),
        (Canned(500, b"{}"), Unavailable),
        (Canned(429, b"{}"), Unavailable),
        (Canned(200, b"{}", silent_s=3), Unavailable),
        (Canned(200, b" " * 4000, drip_s=0.05), Unavailable),
        (Canned(0), Unavailable),
    ],
)
def test_a_token_that_is_not_had_is_asked_for_once(tmp_path: Path, answer: Canned, expected: type[Exception]) -> None:
    with canned(answer) as server, pytest.raises(expected) as caught:
        bearer(service_account(tmp_path, f"{server.url}/token"))
    assert len(server.requests) == 1
    assert "PRIVATE KEY" not in str(caught.value)


def test_no_redirect_of_the_token_call_is_followed(tmp_path: Path) -> None:
    with (
        canned(Canned(200, b"{}")) as other,
        canned(Canned(307, b"", {"Location": other.url})) as server,
        pytest.raises(AuthFailed),
    ):
        bearer(service_account(tmp_path, f"{server.url}/token"))
    assert (len(server.requests), other.requests) == (1, [])


@pytest.mark.parametrize(
    "text", ["", "[]", "not JSON", '{"type": "gdch_service_account"}', '{"type": "service_account"}', "{}"]
)
def test_a_file_without_usable_credentials_is_refused_with_a_sentence(tmp_path: Path, text: str) -> None:
    path = tmp_path / "account.json"
    path.write_text(text)
    for name in (f"{path}", f"{tmp_path / 'none.json'}"):
        with pytest.raises(AuthFailed, match="GOOGLE_APPLICATION_CREDENTIALS"):
            bearer(name)


# --- through the simulated cloud


def test_the_demo_gives_regions_machines_and_prices() -> None:
    with start("demo", providers=("gcp",)) as sim:
        told = of_sim(sim)
        assert {one.region for one in facts("places", told) if isinstance(one, Region)} >= {"us-central1", "us-east4"}
        found = facts("machines", told)
        gpus = {one.gpu for one in found if isinstance(one, Machine)}
        assert gpus >= {"a100-sxm4-40g", "h100-sxm5-80g", "b200", "l4", "t4", "tpu-v5e", "rtx-pro-6000-server"}
        assert not [one for one in found if isinstance(one, Note) and one.kind == "unknown_gpu"]
        before = {(one.instance_type, one.zone) for one in found if isinstance(one, Offered)}
        sim.advance(235)
        after = {(one.instance_type, one.zone) for one in facts("machines", told) if isinstance(one, Offered)}
        assert {zone for name, zone in before - after if name.startswith("a3-highgpu")} == {"us-central1-c"}


def test_a_score_is_a_likelihood_of_each_zone_and_never_stock() -> None:
    with start("demo", providers=("gcp",)) as sim:
        told = of_sim(sim, scores=True)
        found = facts("scores", told, "us-central1", "spot a3-highgpu-8g")
    assert found == [
        Stock(
            region="us-central1",
            zone=f"us-central1-{letter}",
            instance_type="a3-highgpu-8g",
            purchases=frozenset({Purchase.SPOT}),
            level=Level.UNKNOWN,
            evidence=Evidence.SCORED,
            detail="obtainability of one; estimated uptime 3600s",
            score="0.3",
        )
        for letter in "ac"
    ]


def test_a_type_that_a_region_does_not_sell_has_no_score_there() -> None:
    with start("demo", providers=("gcp",)) as sim:
        told = of_sim(sim, scores=True)
        for place, part in (("us-east4", "spot a2-highgpu-8g"), ("mars-north1", "spot a2-highgpu-8g")):
            with pytest.raises(NotServed):
                facts("scores", told, place, part)


def advice(part: str, *recommendations: Json) -> list[Any]:
    page = Page("advice", json.dumps({"recommendations": recommendations}).encode(), NOW, "us-central1", part)
    return list(feed("scores", config("http://127.0.0.1:9", scores=True)).parse(page))


LIKELY = {"obtainability": 0.8}
SHARD = {"zone": "https://host/projects/p/zones/us-central1-a", "machineType": "g2-standard-4"}


@pytest.mark.parametrize(
    ("recommendation", "noted"),
    [
        ({"scores": LIKELY, "shards": []}, "advice_of_no_single_zone"),
        ({"scores": LIKELY}, "advice_of_no_single_zone"),
        ({"scores": LIKELY, "shards": [SHARD | {"machineType": "g2-standard-8"}]}, "advice_of_no_single_zone"),
        ({"scores": LIKELY, "shards": [SHARD, SHARD | {"zone": "zones/r-b"}]}, "advice_of_no_single_zone"),
        ({"scores": {}, "shards": [SHARD]}, "no_score"),
        ({"shards": [SHARD]}, "no_score"),
        ({"scores": {"obtainability": 1.2}, "shards": [SHARD]}, "no_score"),
        ({"scores": {"obtainability": -0.1}, "shards": [SHARD]}, "no_score"),
    ],
)
def test_advice_that_is_not_whole_is_no_score(recommendation: Json, noted: str) -> None:
    assert [(one.kind, one.record) for one in advice("spot g2-standard-4", recommendation)] == [(noted, True)]


def test_a_window_that_may_be_booked_is_shown_with_its_dates_and_a_zone_without_one_is_out() -> None:
    others = {
        "zones/us-central1-b": {"status": "NOT_SUPPORTED", "details": "Machine type is not supported."},
        "zones/us-central1-c": {"status": "CONDITIONS_NOT_MET"},
    }
    window = {"location": "zones/us-central1-a", "startTime": "2026-12-20T00:00:00Z", "endTime": "2026-12-27T00:00:00Z"}
    spec = {"recommendationType": "FUTURE_RESERVATION", "otherLocations": others}
    found = advice("calendar a4-highgpu-8g", {"recommendationsPerSpec": {"spec": spec | window}})
    told = [one for one in found if isinstance(one, Stock)]
    assert {(one.zone, one.detail.partition(": ")[2]) for one in told} == {
        ("us-central1-a", "RECOMMENDED 2026-12-20T00:00:00Z to 2026-12-27T00:00:00Z"),
        ("us-central1-c", "CONDITIONS_NOT_MET"),
    }
    assert Note("no_calendar_mode", "a4-highgpu-8g us-central1-b") in found
    assert {(one.zone, one.level, one.evidence, one.purchases) for one in told} == {
        ("us-central1-a", Level.UNKNOWN, Evidence.LISTED, frozenset({Purchase.CAPACITY_BLOCK})),
        ("us-central1-c", Level.OUT, Evidence.REPORTED, frozenset({Purchase.CAPACITY_BLOCK})),
    }
    none = advice("calendar a4-highgpu-8g", {"recommendationsPerSpec": {"spec": spec}})
    assert Note("no_window", "a4-highgpu-8g") in none
    assert len(none) == 3


@pytest.mark.parametrize(
    ("status", "level"),
    [
        ("NO_CAPACITY", Level.OUT),
        ("CONDITIONS_NOT_MET", Level.OUT),
        ("RECOMMENDED", Level.UNKNOWN),
        ("SOMETHING_NEW", Level.UNKNOWN),
    ],
)
def test_a_zone_is_out_where_google_says_that_nothing_can_be_booked(status: str, level: Level) -> None:
    spec = {"otherLocations": {"zones/us-central1-c": {"status": status}}}
    note, stock = advice("calendar a4-highgpu-8g", {"recommendationsPerSpec": {"spec": spec}})
    assert note == Note("no_window", "a4-highgpu-8g")
    assert (stock.zone, stock.level, stock.detail) == ("us-central1-c", level, f"calendar mode, 7 days: {status}")


def test_the_windows_are_asked_for_a_week_within_four() -> None:
    with start("demo", providers=("gcp",)) as sim:
        found = facts("scores", of_sim(sim, scores=True), "us-central1", "calendar a4-highgpu-8g")
    (one,) = found
    assert one.detail == "calendar mode, 7 days: RECOMMENDED 2026-11-30T12:00:00Z to 2026-12-28T12:00:00Z"


def test_each_recorded_page_of_places_comes_through_the_sdk_as_it_is() -> None:
    for case in cases("gcp"):
        if case.feed == "places":
            with canned(Canned(200, case.page.body)) as server:
                first, second = pages("places", config(server.url))
            (found,) = [page for page in (first, second) if page.name == case.name]
            assert json.loads(found.body)["items"] == json.loads(case.page.body, parse_float=str)["items"]
