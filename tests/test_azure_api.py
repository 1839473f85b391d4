"""Azure's wire: tokens, pages, what each error means, and that nothing is sent where it should not be."""

import json
import re
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from werkzeug import Request, Response
from werkzeug.serving import make_server

import simcloud
from catalog.facts import Fact, Machine, Note, Price, Region, Stock
from collectors.azure import Azure
from collectors.azure_retail import SHEET_HOSTS, Prices
from collectors.azure_wire import rebased
from collectors.base import (
    AuthFailed,
    Cell,
    Config,
    Drift,
    Feed,
    NotConfigured,
    NotServed,
    ProviderError,
    Throttled,
    Unavailable,
)
from collectors.registry import provider
from scheduler.scrub import Scrubber
from tests.support.contract import SECRET, counted_calls
from tests.support.pages import NOW
from tests.test_azure import KEYS, item, sku, usage

Answer = Callable[[Request], Response | None]
SKUS, USAGES, LOCATIONS = "/skus", "/usages", "/locations"
ARM = "management", "retail"


def as_json(value: object, status: int = 200, **headers: str) -> Response:
    return Response(json.dumps(value), status, headers, content_type="application/json")


def refusal(status: int, code: str, message: str = "so it is", **headers: str) -> Response:
    """An error of Resource Manager's."""
    return as_json({"error": {"code": code, "message": message}}, status, **headers)


@dataclass(slots=True)
class Azures:
    """A local Azure: the end of a path -> its answer; `asked` is every request with its bearer."""

    url: str
    answers: dict[str, Response | Answer] = field(default_factory=dict)
    asked: list[tuple[str, str, str]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)

    def __call__(self, request: Request) -> Response:
        full = request.full_path.rstrip("?")
        self.asked.append((request.method, full, request.headers.get("Authorization", "")))
        self.bodies.append(request.get_data())
        for ending, answer in self.answers.items():
            if request.path.endswith(ending):
                found = answer(request) if callable(answer) and not isinstance(answer, Response) else answer
                if found is not None:
                    return found
        return as_json({}, 404)

    def paths(self) -> list[str]:
        return [path for _, path, _ in self.asked]


@contextmanager
def azures(ssl_context: ssl.SSLContext | None = None, /, **answers: Response | Answer) -> Iterator[Azures]:
    """It, on 127.0.0.1; the names are the ends of paths: `skus` answers `…/skus`."""
    cloud = Azures("", {f"/{name}": what for name, what in answers.items()})
    server = make_server("127.0.0.1", 0, Request.application(cloud), threaded=True, ssl_context=ssl_context)
    cloud.url = f"{'https' if ssl_context else 'http'}://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield cloud
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def config(cloud: Azures, *services: str, site: str | None = None, seconds: float = 5) -> Config:
    endpoints = dict.fromkeys(services or ARM, cloud.url)
    return Config(KEYS, ("eastus",), site, endpoints, scores=True, timeout=timedelta(seconds=seconds))


def feed(name: str, told: Config) -> Feed:
    return {one.name: one for one in provider("azure", told).feeds()}[name]


def polled(name: str, told: Config, *regions: str) -> tuple[list[Fact | Note], Mapping[str, int]]:
    """What one poll of a feed's first cell states, and what it skipped."""
    asked = feed(name, told)
    items: list[Fact | Note] = []
    skipped: dict[str, int] = {}
    for page in asked.fetch(next(iter(asked.cells(regions or ("eastus",)))), NOW, {}):
        skipped |= page.skipped
        items += asked.parse(page)
    return items, skipped


def failed(name: str, told: Config) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        polled(name, told)
    assert SECRET not in str(caught.value)
    return caught.value


def skus(*pages: Sequence[Mapping[str, Any]], next_host: str = "") -> Answer:
    """Pages of SKUs, each with a link to the next; at `next_host`, or where it was asked."""

    def answer(request: Request) -> Response:
        number = int(request.args.get("$skiptoken", "0"))
        body: dict[str, Any] = {"value": list(pages[number])}
        if number + 1 < len(pages):
            here = next_host or request.host_url.rstrip("/")
            body["nextLink"] = f"{here}{request.path}?api-version=2021-07-01&$skiptoken={number + 1}"
        return as_json(body)

    return answer


NO_QUOTAS = as_json({"value": []})


# --- Listings


def test_skus_are_listed_by_the_sdk_page_after_page() -> None:
    pages = [
        [sku("Standard_NC24ads_A100_v4")],
        [],
        [sku("Standard_NC6s_v3"), sku("Standard_D2s_v3", caps={"GPUs": None})],
    ]
    with azures(skus=skus(*pages), usages=as_json({"value": [usage("lowPriorityCores", 0)]})) as cloud:
        items, skipped = polled("machines", config(cloud))
    assert [one.instance_type for one in items if isinstance(one, Machine)] == [
        "Standard_NC24ads_A100_v4",
        "Standard_NC6s_v3",
    ]
    assert skipped == {"without_accelerator": 1}
    first, *_ = cloud.paths()
    assert re.fullmatch(r"/subscriptions/[0-9-]+/providers/Microsoft.Compute/skus\?.*", first)
    assert "$filter=location%20eq%20'eastus'" in first.replace("%27", "'").replace("+", "%20").replace("%24", "$")
    assert len(cloud.asked) == 4
    assert {one.detail for one in items if isinstance(one, Stock)} == {
        "restricted: NO_QUOTA: lowPriorityCores 0 of 0 vCPUs used"
    }


def test_a_machine_whose_name_is_of_no_known_series_is_kept_for_its_gpus() -> None:
    with azures(
        skus=skus([sku("Standard_X8_GPU_v1"), {**sku("P10"), "resourceType": "disks"}]), usages=NO_QUOTAS
    ) as cloud:
        items, skipped = polled("machines", config(cloud))
    assert [one.instance_type for one in items if isinstance(one, Machine)] == ["Standard_X8_GPU_v1"]
    assert skipped == {"not_a_machine": 1}


@pytest.mark.parametrize("listing", ["machines", "places"])
@pytest.mark.parametrize("body", [{}, {"value": None}, {"value": {}}, {"value": [], "nextLink": 7}, {"items": []}])
def test_a_missing_list_is_never_an_empty_one(listing: str, body: object) -> None:
    with azures(skus=as_json(body), locations=as_json(body), usages=NO_QUOTAS) as cloud:
        assert isinstance(failed(listing, config(cloud)), Drift)


def test_no_machine_at_all_is_an_answer() -> None:
    with azures(skus=as_json({"value": []}), usages=NO_QUOTAS) as cloud:
        assert polled("machines", config(cloud)) == ([], {})


@pytest.mark.parametrize("listing", ["machines", "places"])
def test_a_next_link_to_another_host_is_asked_for_here_and_the_token_goes_nowhere_else(listing: str) -> None:
    name = {"machines": "skus", "places": "locations"}[listing]
    with azures() as other:
        with azures(usages=NO_QUOTAS, **{name: skus([sku()], [sku("Standard_NC6s_v3")], next_host=other.url)}) as cloud:
            polled_or_drift(listing, config(cloud))
        assert len([path for path in cloud.paths() if name in path]) == 2
    assert other.asked == []


def polled_or_drift(name: str, told: Config) -> None:
    """SKUs are no regions: what matters is what was asked."""
    try:
        polled(name, told)
    except Drift:
        assert name == "places"


@pytest.mark.parametrize("link", ["{here}/skus?a=1", "page two", "?$skiptoken=2", "http://[::1"])
def test_a_next_link_that_leads_nowhere_or_back_is_drift(link: str) -> None:
    def answer(request: Request) -> Response:
        here = f"{request.host_url.rstrip('/')}{request.path.removesuffix('/skus')}"
        return as_json({"value": [], "nextLink": link.replace("{here}", here)})

    with azures(skus=answer) as cloud:
        assert "link to the next page" in str(failed("machines", config(cloud)))
    assert len(cloud.asked) <= 2


@pytest.mark.parametrize(
    ("link", "url"),
    [
        ("https://prices.azure.com:443/api/x?$skip=1", "http://here/api/x?$skip=1"),
        ("http://localhost:8080/api", "http://here/api"),
        ("/api?$skip=2", "http://here/api?$skip=2"),
        ("//elsewhere/api", "http://here/api"),
        ("api", None),
        ("", None),
        ("http://[", None),
    ],
)
def test_a_link_keeps_its_path_and_gets_our_host(link: str, url: str | None) -> None:
    assert rebased("http://here", link) == url


# --- What errors mean


@pytest.mark.parametrize("listing", ["machines", "places", "scores"])
@pytest.mark.parametrize(
    ("answer", "kind", "said"),
    [
        (refusal(401, "InvalidAuthenticationToken"), AuthFailed, "AZURE_CLIENT_SECRET"),
        (
            refusal(
                403, "AuthorizationFailed", "no authorization to perform action 'Microsoft.Compute/skus/read' over"
            ),
            NotServed,
            "Microsoft.Compute/skus/read",
        ),
        (refusal(403, "LinkedAuthorizationFailed", "no"), NotServed, "that this feed needs"),
        (refusal(403, "RequestDisallowedByAzure"), AuthFailed, "refused"),
        (refusal(404, "SubscriptionNotFound"), AuthFailed, "AZURE_SUBSCRIPTION_ID"),
        (refusal(400, "NoRegisteredProviderFound"), NotServed, "not served here"),
        (refusal(409, "MissingSubscriptionRegistration"), NotServed, "not served here"),
        (refusal(404, "ResourceNotFound"), NotServed, "not served here"),
        (refusal(409, "SkuNotAvailable"), Drift, "SkuNotAvailable"),
        (refusal(400, "InvalidApiVersionParameter"), Drift, "InvalidApiVersionParameter"),
        (refusal(503, "ServerBusy"), Unavailable, "503"),
        (refusal(408, "Timeout"), Unavailable, "408"),
        (as_json([], 500), Unavailable, "500"),
    ],
    ids=lambda value: value.status if isinstance(value, Response) else "",
)
def test_an_error_of_resource_manager_has_its_own_meaning(
    listing: str, answer: Response, kind: type[ProviderError], said: str
) -> None:
    with azures(skus=answer, locations=answer, generate=answer) as cloud:
        error = failed(listing, config(cloud))
    assert (type(error), said in str(error)) == (kind, True), error
    assert len(cloud.asked) == 1, "one call: retries are the scheduler's"


@pytest.mark.parametrize("listing", ["machines", "places", "scores", "prices"])
def test_a_throttled_call_says_for_how_long(listing: str) -> None:
    answer = refusal(429, "SubscriptionRequestsThrottled", **{"Retry-After": "9"})
    with azures(skus=answer, locations=answer, generate=answer, prices=answer) as cloud:
        error = failed(listing, config(cloud))
    assert isinstance(error, Throttled)
    assert error.retry_after == (timedelta(minutes=15) if listing == "scores" else timedelta(seconds=9))
    assert len(cloud.asked) == 1


@pytest.mark.parametrize(("listing", "minutes"), [("machines", 1), ("places", 1), ("prices", 1), ("scores", 15)])
def test_a_throttled_call_that_names_no_time_is_not_made_again_within_the_poll(listing: str, minutes: int) -> None:
    answer = refusal(429, "SubscriptionRequestsThrottled")
    with azures(skus=answer, locations=answer, prices=answer, generate=answer) as cloud:
        error = failed(listing, config(cloud))
    assert isinstance(error, Throttled)
    assert error.retry_after == timedelta(minutes=minutes)


def test_throttling_of_scores_that_lasts_longer_is_waited_for() -> None:
    with azures(generate=refusal(429, "TooManyRequests", **{"Retry-After": "3000"})) as cloud:
        error = failed("scores", config(cloud))
    assert isinstance(error, Throttled)
    assert error.retry_after == timedelta(seconds=3000)


def test_a_call_for_scores_that_failed_may_have_counted_and_is_made_again_when_one_more_is_allowed() -> None:
    good = as_json({"placementScores": []})
    with azures(generate=refusal(503, "ServerBusy")) as cloud:
        asked = feed("scores", config(cloud))
        cell, other, *_ = asked.cells(["eastus"])
        with pytest.raises(Unavailable, match="503"):
            list(asked.fetch(cell, NOW, {}))
        with pytest.raises(Throttled, match="503") as caught:
            list(asked.fetch(cell, NOW + timedelta(minutes=5), {}))
        assert (caught.value.retry_after, len(cloud.asked)) == (timedelta(minutes=10), 1)
        cloud.answers["/generate"] = good
        assert list(asked.fetch(other, NOW, {})), "another cell has a call of its own"
        assert list(asked.fetch(cell, NOW + timedelta(minutes=15), {}))
        assert list(asked.fetch(cell, NOW + timedelta(minutes=15), {})), "one that was answered is no failure"


@pytest.mark.parametrize("site", [None, "cn"])
def test_scores_are_asked_for_where_they_are_served_whatever_regions_are_named(site: str | None) -> None:
    with azures(generate=as_json({"placementScores": []})) as cloud:
        polled("scores", config(cloud, site=site), "chinanorth3", "chinaeast2")
    (path,) = cloud.paths()
    assert ("/locations/eastus/" in path) is (site is None)
    assert json.loads(cloud.bodies[0])["desiredLocations"] == ["chinaeast2", "chinanorth3"]


@pytest.mark.parametrize("listing", ["machines", "places", "scores"])
def test_a_refusal_in_html_is_a_proxys_and_says_nothing_of_the_credentials(listing: str) -> None:
    page = Response("<html>blocked</html>", 403)
    with azures(skus=page, locations=page, generate=page) as cloud:
        error = failed(listing, config(cloud))
    assert type(error) is Unavailable
    assert "proxy" in str(error)


@pytest.mark.parametrize(
    "answer", [refusal(403, "AuthorizationFailed", "'Microsoft.Compute/locations/usages/read'"), as_json({}, 404)]
)
def test_without_quotas_machines_are_known_all_the_same(answer: Response) -> None:
    with azures(skus=skus([sku()]), usages=answer) as cloud:
        items, _ = polled("machines", config(cloud))
    assert [one.instance_type for one in items if isinstance(one, Machine)] == ["Standard_NC24ads_A100_v4"]
    assert [one.kind for one in items if isinstance(one, Note)] == ["quotas_not_read"]


@pytest.mark.parametrize(
    ("answer", "kind"), [(as_json({}, 503), Unavailable), (refusal(401, "ExpiredAuthenticationToken"), AuthFailed)]
)
def test_quotas_that_failed_are_not_quotas_that_cannot_be_read(answer: Response, kind: type[ProviderError]) -> None:
    with azures(skus=skus([sku()]), usages=answer) as cloud:
        assert type(failed("machines", config(cloud))) is kind


@pytest.mark.parametrize("name", ["AZURE_TENANT_ID", "AZURE_SUBSCRIPTION_ID"])
@pytest.mark.parametrize("value", ["a/b", "a?b", "../x", "a b"])
def test_an_id_that_would_be_another_path_is_sent_nowhere(name: str, value: str) -> None:
    with azures() as cloud:
        told = config(cloud)
        bent = Config({**KEYS, name: value}, told.regions, None, told.endpoints)
        error = failed("places", bent)
    assert isinstance(error, AuthFailed)
    assert name in str(error)
    assert cloud.asked == []


# --- Tokens


def token(request: Request) -> Response:
    form = {name: values[0] for name, values in parse_qs(request.get_data().decode()).items()}
    good = form["client_secret"] == KEYS["AZURE_CLIENT_SECRET"] and form["grant_type"] == "client_credentials"
    known = {"token_type": "Bearer", "expires_in": 3599, "access_token": f"token for {form['scope']}"}
    return as_json(known) if good else as_json({"error": "invalid_client"}, 401)


ALL = "management", "login", "retail"


@pytest.mark.parametrize(
    ("site", "scope"),
    [(None, "https://management.azure.com/.default"), ("cn", "https://management.chinacloudapi.cn/.default")],
)
def test_a_token_is_asked_for_once_a_fetch_for_the_cloud_of_the_site(site: str | None, scope: str) -> None:
    with azures(token=token, skus=skus([sku()], [sku()]), usages=NO_QUOTAS) as cloud, counted_calls() as calls:
        polled("machines", config(cloud, *ALL, site=site))
    assert cloud.asked[0] == ("POST", f"/{KEYS['AZURE_TENANT_ID']}/oauth2/v2.0/token", "")
    assert {bearer for _, _, bearer in cloud.asked[1:]} == {f"Bearer token for {scope}"}
    assert len(calls) == len(cloud.asked) == 4


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (as_json({"error": "invalid_client", "error_description": "AADSTS7000215"}, 401), AuthFailed),
        (as_json({"error": "unauthorized_client"}, 400), AuthFailed),
        (as_json({}, 403), AuthFailed),
        (Response("<html>blocked</html>", 403), Unavailable),
        (as_json({"token_type": "Bearer"}), Drift),
        (Response("<html>", 200), Drift),
        (Response("", 302, {"Location": "http://127.0.0.1:9/"}), Drift),
        (as_json({"error": "temporarily_unavailable"}, 503), Unavailable),
        (as_json({}, 429), Throttled),
    ],
)
def test_a_token_that_cannot_be_had_has_its_own_error(answer: Response, kind: type[ProviderError]) -> None:
    with azures(token=answer) as cloud:
        error = failed("places", config(cloud, *ALL))
    assert type(error) is kind, error
    assert len(cloud.asked) == 1


TOKEN = "eyJ0eXAiOiJKV1QiLCJhbGciOiJSUzI1NiJ9.SECRETBEARERTOKEN.c2ln"


@pytest.mark.parametrize(
    "answer",
    [
        Response(f'{{"token_type": "Bearer", "expires_in": 3599, "access_token": "{TOKEN}"', 200),
        as_json({"token_type": "Bearer", "access_token": [TOKEN]}),
        Response(f"<html>{TOKEN}</html>", 405),
        Response(f"<html>{TOKEN}</html>", 302, {"Location": "/"}),
    ],
)
def test_no_answer_of_a_login_is_kept_for_a_report(answer: Response) -> None:
    """It may be a whole token, cut before its last brace."""
    with azures(token=answer) as cloud:
        error = failed("places", config(cloud, *ALL))
    assert isinstance(error, Drift)
    assert error.page is None
    assert TOKEN not in str(error)


def test_a_token_that_an_answer_repeats_is_kept_nowhere() -> None:
    """As a proxy's page does, which shows the request."""

    def echo(request: Request) -> Response:
        return Response(f"<html>{dict(request.headers)}</html>", 400)

    token = as_json({"token_type": "Bearer", "expires_in": 3599, "access_token": TOKEN})
    with azures(token=token, locations=echo) as cloud:
        told = config(cloud, *ALL)
        error = failed("places", told)
    assert isinstance(error, Drift)
    assert error.page is not None
    assert TOKEN.encode() in error.page.body
    kept = Scrubber(told.environ).body(error.page.body)
    assert b"SECRETBEARERTOKEN" not in kept
    assert b"Bearer ***" in kept


def test_a_server_on_loopback_without_tokens_takes_any_and_the_secret_is_sent_to_nobody() -> None:
    with azures(locations=as_json({"value": []})) as cloud:
        failed("places", config(cloud))
        failed("places", config(cloud, *ALL))
    kinds = [(method, bearer) for method, _, bearer in cloud.asked]
    assert kinds == [("GET", "Bearer local"), ("POST", ""), ("GET", "Bearer local")]
    assert SECRET.encode() not in cloud.bodies[0]


def test_throttling_at_the_login_that_names_no_time_lasts_a_minute() -> None:
    with azures(token=as_json({}, 429)) as cloud:
        error = failed("places", config(cloud, *ALL))
    assert isinstance(error, Throttled)
    assert error.retry_after == timedelta(minutes=1)


@pytest.mark.parametrize("service", ["management", "login"])
@pytest.mark.parametrize("host", ["azure.example", "10.0.0.7", "127.0.0.1.example"])
def test_over_plain_http_to_another_machine_nothing_is_sent(service: str, host: str) -> None:
    with azures(token=token) as cloud:
        told = config(cloud, *ALL)
        bent = Config(KEYS, told.regions, None, {**told.endpoints, service: f"http://{host}:8080"}, scores=True)
        for listing in ("machines", "places", "scores"):
            error = failed(listing, bent)
            assert type(error) is NotConfigured
            assert service in str(error)
    assert cloud.asked == []


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, Path]:
    """A certificate of our own for 127.0.0.1: to serve with, and the file to trust."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    built = x509.CertificateBuilder(name, name, key.public_key(), 1)
    built = built.not_valid_before(datetime(2020, 1, 1, tzinfo=UTC)).not_valid_after(datetime(2060, 1, 1, tzinfo=UTC))
    built = built.add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
    built = built.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    folder = tmp_path_factory.mktemp("certificate")
    certificate, secret = folder / "certificate.pem", folder / "key.pem"
    certificate.write_bytes(built.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    plain = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    secret.write_bytes(key.private_bytes(*plain))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, secret)
    return context, certificate


def discovery(request: Request) -> Response:
    """Where tokens are had; azure-identity asks for it first. The host in it is not where they are asked for."""
    elsewhere = f"https://elsewhere.invalid/{request.path.split('/')[1]}"
    ends = {f"{end}_endpoint": f"{elsewhere}/oauth2/v2.0/{end}" for end in ("authorization", "token")}
    return as_json({**ends, "issuer": f"{elsewhere}/v2.0"})


@contextmanager
def entra(
    certified: tuple[ssl.SSLContext, Path], monkeypatch: pytest.MonkeyPatch, answer: Response | Answer
) -> Iterator[Azures]:
    monkeypatch.setenv("SSL_CERT_FILE", str(certified[1]))
    served = {"openid-configuration": discovery, "token": answer, "skus": skus([sku()], [sku()]), "usages": NO_QUOTAS}
    with azures(certified[0], **served) as cloud:
        yield cloud


def test_over_https_azure_identity_asks_for_the_token(
    certified: tuple[ssl.SSLContext, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    with entra(certified, monkeypatch, token) as cloud, counted_calls() as calls:
        items, _ = polled("machines", config(cloud, *ALL))
    assert [one.instance_type for one in items if isinstance(one, Machine)] == ["Standard_NC24ads_A100_v4"] * 2
    asked = [(method, path.partition("?")[0].rsplit("/", 1)[1]) for method, path, _ in cloud.asked]
    assert asked == [("GET", "openid-configuration"), ("POST", "token"), *[("GET", "skus")] * 2, ("GET", "usages")]
    assert {bearer for _, _, bearer in cloud.asked[2:]} == {"Bearer token for https://management.azure.com/.default"}
    assert len(calls) == 5


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (as_json({"error": "invalid_client", "error_description": "AADSTS7000215"}, 401), AuthFailed),
        (as_json({"error": "invalid_request"}, 400), AuthFailed),
        (as_json({}, 503), Unavailable),
        (as_json({}, 429, **{"Retry-After": "3"}), Throttled),
        (Response("<html>sign in</html>", 200), Drift),
        (Response("", 302, {"Location": "https://127.0.0.1:9/"}), Drift),
    ],
)
def test_an_error_of_azure_identity_is_what_the_wire_said(
    certified: tuple[ssl.SSLContext, Path], monkeypatch: pytest.MonkeyPatch, answer: Response, kind: type[ProviderError]
) -> None:
    with entra(certified, monkeypatch, answer) as cloud:
        assert type(failed("machines", config(cloud, *ALL))) is kind
    assert len(cloud.asked) == 2, "one attempt, and no call to Resource Manager"


# --- Retail prices


def retail(*pages: Sequence[Mapping[str, Any]], hosts: Mapping[int, str] | None = None) -> Answer:
    """Pages of items, linked by `$skip`; `hosts` are what some links say instead of where it was asked."""

    def answer(request: Request) -> Response:
        number = int(request.args.get("$skip", "0"))
        here = (hosts or {}).get(number) or request.host_url.rstrip("/")
        link = f"{here}/api/retail/prices?$skip={number + 1}" if number + 1 < len(pages) else None
        return as_json({"BillingCurrency": "USD", "Items": list(pages[number]), "NextPageLink": link, "Count": 1})

    return answer


def prices_of(items: Sequence[Fact | Note]) -> dict[tuple[str, str], int]:
    return {(one.instance_type, one.purchase.value): one.nanos for one in items if isinstance(one, Price)}


def test_prices_are_asked_for_in_exact_case_with_no_credentials() -> None:
    with azures(prices=retail([item()])) as cloud:
        told = config(cloud)
        items, _ = polled("prices", Config({}, ("EastUS",), None, told.endpoints), "EastUS")
    assert prices_of(items) == {("Standard_NC24ads_A100_v4", "on_demand"): 3_673_000_000}
    ((method, path, bearer),) = cloud.asked
    asked = path.replace("%20", " ").replace("+", " ").replace("%27", "'").replace("%24", "$")
    assert (method, bearer) == ("GET", "")
    assert "serviceName eq 'Virtual Machines' and armRegionName eq 'eastus'" in asked
    assert "currencyCode=USD" in asked


def test_every_page_is_read_whatever_host_its_link_names() -> None:
    """B055: 14 pages, the wanted size on the last."""
    pages = [[item(1.0, f"Standard_D{number}s_v3")] * 10 for number in range(13)] + [[item()]]
    with azures() as other:
        with azures(prices=retail(*pages, hosts={2: other.url, 5: "https://prices.azure.com:443"})) as cloud:
            items, skipped = polled("prices", config(cloud))
        assert other.asked == []
    assert (len(cloud.asked), skipped) == (14, {"without_accelerator": 130})
    assert prices_of(items) == {("Standard_NC24ads_A100_v4", "on_demand"): 3_673_000_000}


def test_duplicates_on_different_pages_are_read_together() -> None:
    older = item(9.9, effectiveStartDate="2025-01-01T00:00:00Z")
    for pages in ([[older], [item()]], [[item()], [older]]):
        with azures(prices=retail(*pages)) as cloud:
            assert prices_of(polled("prices", config(cloud))[0]) == {
                ("Standard_NC24ads_A100_v4", "on_demand"): 3_673_000_000
            }


def test_a_page_that_links_back_is_drift_and_a_page_that_fails_leaves_nothing() -> None:
    with azures(prices=as_json({"Items": [item()], "NextPageLink": "/api/retail/prices?$skip=1"})) as cloud:
        assert "NextPageLink" in str(failed("prices", config(cloud)))
    assert len(cloud.asked) == 2

    def second_fails(request: Request) -> Response:
        return as_json({}, 500) if "$skip" in request.args else retail([item()], [item()])(request) or as_json({})

    with azures(prices=second_fails) as cloud:
        assert isinstance(failed("prices", config(cloud)), Unavailable)


@pytest.mark.parametrize("body", [{}, {"Items": None}, {"Items": {}}, {"Items": [7]}, {"Items": [], "NextPageLink": 7}])
def test_prices_that_are_not_as_learnt_are_drift(body: object) -> None:
    with azures(prices=as_json(body)) as cloud:
        assert isinstance(failed("prices", config(cloud)), Drift)


def test_no_prices_are_an_answer() -> None:
    with azures(prices=as_json({"Items": [], "NextPageLink": None})) as cloud:
        assert polled("prices", config(cloud)) == ([], {})


def test_amounts_are_exact_through_every_step() -> None:
    body = json.dumps({"Items": [item("PRICE")], "NextPageLink": None}).replace('"PRICE"', "0.12345678901234567890")
    with azures(prices=Response(body, content_type="application/json")) as cloud:
        assert prices_of(polled("prices", config(cloud))[0]) == {("Standard_NC24ads_A100_v4", "on_demand"): 123_456_789}


def test_many_items_are_cut_into_pages_between_sizes() -> None:
    padding = "x" * 2000
    items = [item(1.0 + number, f"Standard_NC{number}s_z", location=padding) for number in range(2500)]
    with azures(prices=retail(items, [item(9.9, sku=" Spot"), item()])) as cloud:
        asked = feed("prices", config(cloud))
        pages = list(asked.fetch(next(iter(asked.cells(["eastus"]))), NOW, {}))
    assert len(pages) == 2
    assert all(len(page.body) <= 4 * 1024 * 1024 for page in pages)
    found = [fact for page in pages for fact in asked.parse(page) if isinstance(fact, Price)]
    assert len(found) == 2502


# --- Azure China's price sheet

COLUMNS = (
    *("armRegionName", "armSkuName", "currencyCode", "meterName", "productName", "retailPrice", "serviceName"),
    *("skuName", "type", "unitOfMeasure", "reservationTerm", "isPrimaryMeterRegion", "somethingNew"),
)


def sheet(*rows: Mapping[str, Any], columns: Sequence[str] = COLUMNS, end: str = "\r\n") -> Response:
    lines = [",".join(columns), *(",".join(f'"{row.get(name, "")}"' for name in columns) for row in rows)]
    return Response(("\ufeff" + end.join([*lines, ""])).encode(), content_type="text/csv")


def row(price: object, region: str = "chinanorth3", **more: Any) -> dict[str, Any]:
    return item(price, currencyCode="CNY", armRegionName=region, **more)


def link(request: Request) -> Response:
    here = request.host_url.rstrip("/")
    return as_json({"DownloadUrl": f"{here}/retail/file.csv?sig={SECRET}", "LastRefreshedAt": "2026-11-30T00:00:00Z"})


def china(cloud: Azures, *regions: str) -> Config:
    return Config({}, regions, "cn", {"retail": cloud.url}, timeout=timedelta(seconds=5))


def test_the_price_sheet_of_china_is_read_in_cny_for_all_its_regions() -> None:
    rows = [
        row(36.5),
        row(9.1, sku=" Spot"),
        row(45, productName="NC Series Windows"),
        row(240_000, type="Reservation", reservationTerm="1 Year"),
        row(37.5, "ChinaEast2"),
        row(0.5, armSkuName="Standard_D2s_v3"),
        row(0.1, armSkuName=""),
    ]
    with azures(download=link, **{"file.csv": sheet(*rows)}) as cloud:
        items, skipped = polled("prices", china(cloud))
    found = {(one.region, one.purchase.value): (one.nanos, one.currency) for one in items if isinstance(one, Price)}
    assert found == {
        ("chinanorth3", "on_demand"): (36_500_000_000, "CNY"),
        ("chinanorth3", "spot"): (9_100_000_000, "CNY"),
        ("chinanorth3", "reserved_1y"): (27_397_260_274, "CNY"),
        ("chinaeast2", "on_demand"): (37_500_000_000, "CNY"),
    }
    assert skipped == {"without_accelerator": 1, "without_size": 1}
    assert {bearer for _, _, bearer in cloud.asked} == {""}


def test_only_the_regions_of_china_that_are_named_are_read() -> None:
    with azures(download=link, **{"file.csv": sheet(row(1), row(2, "chinaeast2"))}) as cloud:
        items, skipped = polled("prices", china(cloud, "chinaeast2"))
    assert {one.region for one in items if isinstance(one, Price)} == {"chinaeast2"}
    assert skipped == {"other_region": 1}
    assert list(Prices(china(cloud, "a", "b")).cells(["a", "b"])) == [Cell("azure", "prices")]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_sheet_may_end_with_or_without_a_line_end(end: str) -> None:
    whole = sheet(row(1), row(2, "chinaeast2"), end=end)
    for body in (whole.data, whole.data.rstrip()):
        with azures(download=link, **{"file.csv": Response(body)}) as cloud:
            assert len(prices_of(polled("prices", china(cloud))[0])) == 1
            assert len({one.region for one in polled("prices", china(cloud))[0] if isinstance(one, Price)}) == 2


@pytest.mark.parametrize(
    ("file", "kind", "said"),
    [
        (sheet(row(1), columns=[one for one in COLUMNS if one != "type"]), Drift, "type"),
        (sheet(), Drift, "none of the price sheet's 0 rows"),
        (sheet(row(1, armSkuName="Standard_D2s_v3")), Drift, "none of the price sheet's 1 rows"),
        (Response("a,b\n1\n"), Drift, "columns"),
        (Response(sheet(row(1)).data + b'"one","two"\n'), Drift, "a row of 2 columns"),
        (Response(sheet(row(1)).data + b'"no end'), Drift, "not CSV"),
        (Response(sheet(row(1)).data + b"\xff\xfe\n"), Drift, "UTF-8"),
        (Response("<html>"), Drift, "columns"),
        (Response("", 403), Unavailable, "403"),
        (Response("", 302, {"Location": "http://127.0.0.1:9/"}), Drift, "302"),
    ],
)
def test_a_sheet_that_is_not_as_learnt_is_no_answer(file: Response, kind: type[ProviderError], said: str) -> None:
    with azures(download=link, **{"file.csv": file}) as cloud:
        error = failed("prices", china(cloud))
    assert (type(error), said in str(error)) == (kind, True), error


@pytest.mark.parametrize(
    "url",
    [
        "http://x.blob.core.chinacloudapi.cn/a.csv",
        "https://blob.core.chinacloudapi.cn.elsewhere.example/a.csv",
        "https://elsewhere.example/.blob.core.chinacloudapi.cn",
        "https://169.254.169.254/latest",
        "file:///etc/passwd",
        "https://[",
    ],
)
def test_a_link_to_a_host_that_is_not_azure_chinas_is_not_followed(url: str) -> None:
    asked = Prices(Config(site="cn"))
    assert asked._file("https://prices.azure.cn", url) is None
    good = f"https://upapisachinanorth3{SHEET_HOSTS}/x.csv?sig=1"
    assert asked._file("https://prices.azure.cn", good) == good


# --- The simulated Azure


def test_the_simulated_azure_refuses_what_the_real_one_does() -> None:
    with simcloud.start("demo", providers=("azure",)) as sim:
        endpoints = dict.fromkeys(ALL, sim.url("azure"))
        for name in ("AZURE_CLIENT_ID", "AZURE_TENANT_ID", "AZURE_CLIENT_SECRET", "AZURE_SUBSCRIPTION_ID"):
            bent = {**sim.env(), name: "00000000-wrong"}
            assert isinstance(failed("places", Config(bent, (), None, endpoints)), AuthFailed), name
        without_login = Config(sim.env(), (), None, {"management": sim.url("azure")})
        assert isinstance(failed("places", without_login), AuthFailed), "a token that was not issued"
        sim.options("azure", scores_per_hour=1)
        told = Config(sim.env(), (), None, endpoints, scores=True)
        assert polled("scores", told)[0]
        assert isinstance(failed("scores", told), Throttled)


def test_the_simulated_azure_changes_as_the_scenario_says() -> None:
    with simcloud.start("demo", providers=("azure",)) as sim:
        told = Config(sim.env(), (), None, dict.fromkeys(ALL, sim.url("azure")))

        def restricted() -> set[str]:
            stocks = (one for one in polled("machines", told)[0] if isinstance(one, Stock))
            return {one.instance_type for one in stocks if one.detail.startswith("restricted")}

        before, spot = restricted(), prices_of(polled("prices", told)[0])["Standard_NC40ads_H100_v5", "spot"]
        sim.advance(150)
        assert restricted() - before == {
            "Standard_NC24ads_A100_v4",
            "Standard_NC48ads_A100_v4",
            "Standard_NC96ads_A100_v4",
        }
        after = prices_of(polled("prices", told)[0])["Standard_NC40ads_H100_v5", "spot"]
        assert (spot, after) == (1_954_400_000, 1_535_600_000)
        sim.advance(100)
        assert restricted() == before


def test_quotas_on_several_pages_are_read_whole_and_each_page_is_a_call() -> None:
    with simcloud.start("demo", providers=("azure",)) as sim:
        told = Config(sim.env(), (), None, dict.fromkeys(ALL, sim.url("azure")))
        whole = polled("machines", told, "westus2")
        sim.options("azure", usage_page=2)
        before = len(sim.requests("azure", "usages"))
        with counted_calls() as calls:
            assert polled("machines", told, "westus2") == whole
        asked = sim.requests("azure", "usages")[before:]
        assert len(asked) == 4, "seven quotas"
        assert len(calls) == len(asked) + len(sim.requests("azure", "skus")) // 2 + 1
    said = {
        one.detail for one in whole[0] if isinstance(one, Stock) and one.instance_type == "Standard_NC96ads_A100_v4"
    }
    assert said == {
        "quota StandardNCADSA100v4Family: 48 of 192 vCPUs used; quota cores: 48 of 10000 vCPUs used",
        "quota lowPriorityCores: 0 of 1000 vCPUs used",
    }


def test_a_missing_right_to_read_quotas_is_named_and_loses_no_machine() -> None:
    with simcloud.start("demo", providers=("azure",)) as sim:
        told = Config(sim.env(), (), None, dict.fromkeys(ALL, sim.url("azure")))
        before = {one for one in polled("machines", told)[0] if isinstance(one, Machine)}
        sim.options("azure", may_read_usages=False)
        items, _ = polled("machines", told)
        assert {one for one in items if isinstance(one, Machine)} == before
        (note,) = (one for one in items if isinstance(one, Note) and one.kind == "quotas_not_read")
        assert "lack the right Microsoft.Compute/locations/usages/read" in note.value
        assert not [one for one in items if isinstance(one, Stock) and "quota" in one.detail.casefold()]


@pytest.mark.parametrize("broken", [{}, {"value": None}, {"value": {}}, {"value": [7]}, {"value": [], "nextLink": 7}])
def test_quotas_that_are_no_list_are_drift(broken: object) -> None:
    with azures(skus=skus([sku()]), usages=as_json(broken)) as cloud:
        assert isinstance(failed("machines", config(cloud)), Drift)


def test_throttled_quotas_pause_for_as_long_as_azure_says() -> None:
    answer = refusal(429, "SubscriptionRequestsThrottled", **{"Retry-After": "9"})
    with azures(skus=skus([sku()]), usages=answer) as cloud:
        error = failed("machines", config(cloud))
    assert isinstance(error, Throttled)
    assert error.retry_after == timedelta(seconds=9)


def test_azure_china_is_read_end_to_end_with_tokens_of_its_own() -> None:
    with simcloud.start("demo", providers=("azure",)) as sim:
        told = Config(sim.env(), (), "cn", dict.fromkeys(ALL, sim.url("azure")))
        regions = {one.region for one in polled("places", told)[0] if isinstance(one, Region)}
        assert regions == {"chinaeast2", "chinanorth3"}
        prices = [one for one in polled("prices", told)[0] if isinstance(one, Price)]
        assert ({one.currency for one in prices}, {one.region for one in prices}) == ({"CNY"}, regions)
        assert polled("machines", told, "eastus") == ([], {}), "a region of another cloud"
        assert Azure(told).account
