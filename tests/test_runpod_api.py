"""RunPod asked: what is sent, what an error means, and whole conversations with simulated clouds."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta

import pytest

import simcloud
from catalog.facts import Fact, Machine, Note, Stock, Zone
from catalog.words import Hosting, Level, Purchase
from collectors.base import AuthFailed, Cell, Config, Drift, NotServed, Page, ProviderError, Throttled, Unavailable
from collectors.runpod import COUNTS, GPU_TYPES, Places, RunPod, SpotFeed, StockFeed
from simcloud import Sim
from tests.support.canned import Canned, canned
from tests.support.contract import SECRET
from tests.support.pages import NOW
from tests.test_runpod import A100, KEY, gpu_type, levels, usd

PROBLEM = {"Content-Type": "application/problem+json"}


# What is asked


def test_cells_without_a_key_are_country_cloud_and_count() -> None:
    cells = list(StockFeed(Config()).cells(["US", "RO"]))
    assert len(cells) == len(set(cells)) == 2 * 2 * len(COUNTS)
    assert Cell("runpod", "stock", "RO", "community 8") in cells
    assert [feed.name for feed in RunPod(Config()).feeds()] == ["places", "stock"]
    assert "RUNPOD_API_KEY" in RunPod(Config()).off()["spot"]


def test_with_a_key_no_two_cells_state_the_same_purchase_of_a_machine() -> None:
    keyed = Config(environ=KEY)
    stock = {(cell.place, cell.part) for cell in StockFeed(keyed).cells(["US"])}
    assert stock == {("", f"secure {n}") for n in COUNTS} | {("US", f"community {n}") for n in COUNTS}
    assert {cell.part for cell in SpotFeed(keyed).cells(["US"])} == {f"secure {n}" for n in COUNTS}
    assert [feed.name for feed in RunPod(keyed).feeds()] == ["places", "stock", "spot"]
    assert RunPod(keyed).off() == {}


def test_the_query_is_sent_exactly_the_variables_it_declares() -> None:
    """gpuhunt sends one that its query does not declare, which GraphQL drops without a word."""
    with canned(Canned(body=b'{"data": {"gpuTypes": []}}')) as server:
        feed = StockFeed(Config(endpoints={"api": server.url}))
        list(feed.fetch(Cell("runpod", "stock", "FR", "community 4"), NOW, {}))
    ((path, headers, body),) = server.requests
    sent = json.loads(body)
    assert (path, headers["Content-Type"], "Authorization" in headers) == ("/graphql", "application/json", False)
    assert sent["query"] == GPU_TYPES
    declared = re.findall(r"\$(\w+):", GPU_TYPES)
    used = re.findall(r"input: \$(\w+)", GPU_TYPES)
    assert set(sent["variables"]) == set(declared) == set(used)
    assert sent["variables"] == {
        "gpuTypesInput": {"cluster": False},
        "lowestPriceInput": {"secureCloud": False, "countryCode": "FR", "gpuCount": 4},
    }


# What goes wrong


def graphql_error(code: str, message: str, **more: object) -> bytes:
    return json.dumps({"errors": [{"message": message, "extensions": {"code": code}}], **more}).encode()


@pytest.mark.parametrize("environ", [KEY, {}], ids=["keyed", "keyless"])
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (graphql_error("INTERNAL_SERVER_ERROR", "Something went wrong.", data=None), Unavailable),
        (graphql_error("INTERNAL_SERVER_ERROR", "timed out", data={"gpuTypes": [gpu_type()]}), Unavailable),
        (graphql_error("UNAUTHENTICATED", "no"), AuthFailed),
        (graphql_error("FORBIDDEN", "no"), AuthFailed),
        (graphql_error("", "Unauthorized request, please check your API key."), AuthFailed),
        (graphql_error("RATE_LIMITED", "slow down"), Throttled),
        (graphql_error("", "Too many requests"), Throttled),
        (graphql_error("GRAPHQL_VALIDATION_FAILED", "Cannot query field"), Drift),
    ],
)
def test_an_error_in_http_200_is_an_error(
    body: bytes, expected: type[ProviderError], environ: Mapping[str, str]
) -> None:
    """Without a key none can have been refused: the poll has failed, and no setting would mend it."""
    meant = Unavailable if expected is AuthFailed and not environ else expected
    with canned(Canned(body=body, headers={"Retry-After": "9"})) as server:
        for feed in RunPod(Config(environ, endpoints={"api": server.url})).feeds():
            cell = next(one for one in feed.cells(["US"]) if one.place or feed.name == "places")
            with pytest.raises(ProviderError) as caught:
                list(feed.fetch(cell, NOW, {}))
            assert type(caught.value) is meant
            if isinstance(caught.value, Drift):
                assert caught.value.page is not None
                assert caught.value.page.body == body, "what came is kept for a report"
            if isinstance(caught.value, Throttled):
                assert caught.value.retry_after == timedelta(seconds=9)


def test_errors_are_never_read_as_an_answer() -> None:
    page = Page("US-KS-2", graphql_error("X", "no", data={"gpuTypes": []}), NOW, "US", "secure 1")
    with pytest.raises(Drift):
        list(StockFeed(Config()).parse(page))


def test_a_key_that_an_error_repeats_is_not_shown() -> None:
    key = f"rpa_{SECRET}"
    with canned(Canned(body=graphql_error("UNAUTHENTICATED", f"{key} is no key"))) as server:
        places = Places(Config(environ={"RUNPOD_API_KEY": key}, endpoints={"api": server.url}))
        with pytest.raises(AuthFailed) as caught:
            list(places.fetch(Cell("runpod", "places"), NOW, {}))
    assert SECRET not in str(caught.value)
    assert "RUNPOD_API_KEY" in str(caught.value)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (Canned(400, b'{"title": "Bad Request", "status": 400}', PROBLEM), Drift),
        (Canned(422, b'{"title": "Unprocessable Entity", "status": 422}', PROBLEM), Drift),
        (Canned(401, b'{"title": "Unauthorized", "status": 401}', PROBLEM), AuthFailed),
        (Canned(429, b'{"title": "Too Many Requests", "status": 429}', PROBLEM | {"Retry-After": "12"}), Throttled),
    ],
)
def test_a_problem_of_the_catalogue_is_told_by_its_status(answer: Canned, expected: type[ProviderError]) -> None:
    with canned(answer) as server:
        feed = StockFeed(Config(environ=KEY, endpoints={"api": server.url}))
        with pytest.raises(ProviderError) as caught:
            list(feed.fetch(Cell("runpod", "stock", "", "secure 8"), NOW, {}))
    assert type(caught.value) is expected
    if isinstance(caught.value, Throttled):
        assert caught.value.retry_after == timedelta(seconds=12)


@pytest.mark.parametrize("status", [401, 403])
def test_a_refusal_without_a_key_pauses_nothing_but_its_poll(status: int) -> None:
    """A proxy's 403, say: no credentials exist that could be mended, so that a pause would last for ever."""
    with canned(Canned(status, b"{}")) as server:
        for feed in RunPod(Config(endpoints={"api": server.url})).feeds():
            with pytest.raises(Unavailable, match="no credentials are needed"):
                list(feed.fetch(next(iter(feed.cells(["US"]))), NOW, {}))
        keyed = Places(Config(KEY, endpoints={"api": server.url}))
        with pytest.raises(AuthFailed):
            list(keyed.fetch(Cell("runpod", "places"), NOW, {}))


def asked_for_us(
    memo: Mapping[str, str], *listed: tuple[str, bool], countries: Iterable[str] = ("US", "FR"), place: str = "US"
) -> list[Page]:
    """The pages of a country after a discovery that names these data centres, in a cell with this memo."""
    centres = [{"id": name, "listed": flag} for name, flag in listed]
    body = json.dumps({"data": {"countryCodes": list(countries), "dataCenters": centres}}).encode()
    with canned(Canned(body=body)) as server:
        feed = StockFeed(Config(endpoints={"api": server.url}))
        return list(feed.fetch(Cell("runpod", "stock", place, "secure 1"), NOW, memo))


LATELY = {"US-KS-2": (NOW - timedelta(hours=23)).isoformat()}
LONG_AGO = {"US-KS-2": (NOW - timedelta(hours=25)).isoformat()}
KANSAS, TEXAS, ROMANIA = ("US-KS-2", True), ("US-TX-3", True), ("EU-RO-1", True)


@pytest.mark.parametrize(
    ("memo", "listed"),
    [
        ({}, []),
        ({}, [("US-KS-2", False)]),
        (LATELY, [ROMANIA]),
        (LATELY, [TEXAS, ROMANIA]),
        (LATELY | LONG_AGO | {"US-TX-3": NOW.isoformat()}, [KANSAS]),
    ],
    ids=["none", "none listed", "all of the country missing", "one of two missing", "the other missing"],
)
def test_an_answer_that_leaves_out_a_data_centre_it_named_lately_is_not_believed(
    memo: Mapping[str, str], listed: list[tuple[str, bool]]
) -> None:
    """It fails this poll and keeps what is known: neither is the cell off for a day, nor is anything out."""
    with pytest.raises(Unavailable):
        asked_for_us(memo, *listed)


@pytest.mark.parametrize(("place", "countries"), [("US", ["FR"]), ("MARS-1", ["FR"])])
def test_a_place_that_neither_list_names_is_not_judged(place: str, countries: list[str]) -> None:
    with pytest.raises(Unavailable, match=place):
        asked_for_us({}, ROMANIA, countries=countries, place=place)


@pytest.mark.parametrize(
    ("memo", "listed"),
    [({}, [ROMANIA]), (LONG_AGO, [ROMANIA]), (LATELY, [("US-KS-2", False), ROMANIA])],
    ids=["never had one", "gone for a day", "no longer listed"],
)
def test_a_country_of_private_hosts_alone_has_no_secure_cloud(
    memo: Mapping[str, str], listed: list[tuple[str, bool]]
) -> None:
    with pytest.raises(NotServed):
        asked_for_us(memo, *listed)


def test_a_cell_remembers_which_data_centres_were_named_and_when() -> None:
    pages = asked_for_us(LONG_AGO, TEXAS, KANSAS, ROMANIA)
    assert [page.name for page in pages] == ["US-KS-2", "US-TX-3"]
    assert {tuple(sorted(page.memo.items())) for page in pages} == {
        (("US-KS-2", NOW.isoformat()), ("US-TX-3", NOW.isoformat()))
    }


# Whole conversations


@pytest.fixture
def sim() -> Iterator[Sim]:
    with simcloud.start("demo", clock="manual") as running:
        yield running


def polled(sim: Sim, feed: str, place: str, part: str, environ: Mapping[str, str] | None = None) -> list[Fact | Note]:
    config = Config(environ=environ or {}, endpoints={"api": sim.runpod.url})
    (found,) = [one for one in RunPod(config).feeds() if one.name == feed]
    pages = list(found.fetch(Cell("runpod", feed, place, part), NOW, {}))
    assert all((page.place, page.part, page.at) == (place, part, NOW) for page in pages)
    return [item for page in pages for item in found.parse(page)]


def stocks(items: Iterable[Fact | Note]) -> set[tuple[str, str | None, str, Purchase, Level]]:
    """(region, zone, machine, purchase, level) of each stock."""
    return {
        (one.region, one.zone, one.instance_type, purchase, one.level)
        for one in items
        if isinstance(one, Stock)
        for purchase in one.purchases
    }


def test_places_name_what_the_server_lists(sim: Sim) -> None:
    zones = {one.zone for one in polled(sim, "places", "", "") if isinstance(one, Zone)}
    assert zones == {"US-KS-2", "US-TX-3", "CA-MTL-1", "EU-RO-1", "EU-SE-1", "AP-JP-1"}


def test_each_data_centre_of_a_country_is_asked_for_the_count_and_answers_for_itself(sim: Sim) -> None:
    found = levels(polled(sim, "stock", "US", "secure 2"), f"2x {A100} secure")
    assert found["US-KS-2", Purchase.ON_DEMAND] is Level.IN_STOCK
    assert found["US-TX-3", Purchase.ON_DEMAND] is Level.OUT
    assert (
        levels(polled(sim, "stock", "US", "secure 4"), f"4x {A100} secure")["US-KS-2", Purchase.ON_DEMAND] is Level.OUT
    )
    asked = [(seen.region, seen.part) for seen in sim.requests("runpod", "gpuTypes")]
    assert asked == [(dc, f"SECURE {n}") for n in (2, 4) for dc in ("US-KS-2", "US-TX-3")]


def test_selling_out_and_coming_back_is_seen(sim: Sim) -> None:
    place = {"gpu": A100, "data_center": "EU-RO-1"}
    seen = []
    for stock in ("HIGH", "NONE", "LOW"):
        sim.set("runpod", place, stock=stock)
        found = levels(polled(sim, "stock", "RO", "secure 8"), f"8x {A100} secure")
        seen.append(found["EU-RO-1", Purchase.ON_DEMAND])
    assert seen == [Level.IN_STOCK, Level.OUT, Level.LOW]


def test_one_failing_data_centre_fails_its_country_and_no_other(sim: Sim) -> None:
    sim.fault("runpod", "status", status=503, match={"region": "US-TX-3"})
    with pytest.raises(Unavailable):
        polled(sim, "stock", "US", "secure 1")
    assert levels(polled(sim, "stock", "RO", "secure 1"), f"1x {A100} secure")


def test_the_community_cloud_has_no_zones(sim: Sim) -> None:
    found = polled(sim, "stock", "US", "community 2")
    assert levels(found, f"2x {A100} community")[None, Purchase.ON_DEMAND] is Level.LOW
    assert usd(found, f"2x {A100} community") == 2_780_000_000
    assert {one.hosting for one in found if isinstance(one, Machine)} == {Hosting.COMMUNITY}


def test_with_a_key_catalogue_and_spot_say_together_what_graphql_says_alone(sim: Sim) -> None:
    alone = stocks(polled(sim, "stock", "US", "secure 2"))
    everywhere = stocks(polled(sim, "stock", "", "secure 2", KEY))
    spot = stocks(polled(sim, "spot", "US", "secure 2", KEY))
    assert everywhere
    assert spot
    assert not everywhere & spot
    assert {one for one in everywhere | spot if one[0] == "US"} == alone


def test_the_catalogue_is_asked_once_for_all_data_centres_with_the_key(sim: Sim) -> None:
    found = polled(sim, "stock", "", "secure 8", KEY)
    assert {one.credential for one in sim.requests("runpod")} == {"simcloud"}
    asked = [(one.action, one.part) for one in sim.requests("runpod")]
    assert asked == [("/v2/catalog/datacenters", ""), ("/v2/catalog/gpus", "SECURE 8")]
    assert levels(found, f"8x {A100} secure")["EU-RO-1", Purchase.ON_DEMAND] is Level.IN_STOCK
    assert levels(found, f"8x {A100} secure")["US-KS-2", Purchase.ON_DEMAND] is Level.OUT


def test_a_wrong_key_is_refused_by_every_feed(sim: Sim) -> None:
    for feed, place, part in (("places", "", ""), ("stock", "", "secure 1"), ("spot", "US", "secure 1")):
        with pytest.raises(AuthFailed):
            polled(sim, feed, place, part, {"RUNPOD_API_KEY": "wrong"})
