"""Field cases of Azure, end to end: its prices, its sizes, and what a subscription may not have."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from fractions import Fraction
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from werkzeug import Request, Response

import simcloud
from catalog.facts import Fact, Machine, Offered, Price, Stock
from catalog.words import Evidence, Level, Purchase
from collectors.base import Config
from collectors.registry import provider
from scheduler.plan import Configured
from tests.support.endtoend import Gpufare, amount, gpufare
from tests.support.feeds import ScriptedFeed, always, says
from tests.support.feeds import configured as scripted
from tests.test_azure import KEYS, item, reserved, sku, usage
from tests.test_azure_api import Azures, as_json, azures, link, retail, sheet
from tests.test_azure_api import row as china_row

A100, T4, A10, H100 = (
    "Standard_NC24ads_A100_v4",
    "Standard_NC4as_T4_v3",
    "Standard_NV6ads_A10_v5",
    "Standard_NC40ads_H100_v5",
)
ND = "Standard_ND96asr_v4"
Items = Sequence[Mapping[str, Any]]


def configured(
    cloud: Azures, *regions: str, keys: Mapping[str, str] = KEYS, site: str | None = None, seconds: float = 10
) -> Configured:
    endpoints = {"management": cloud.url, "retail": cloud.url}
    told = Config(keys, regions or ("eastus",), site, endpoints, timeout=timedelta(seconds=seconds))
    return Configured(provider("azure", told), told)


@contextmanager
def priced(folder: Path, items: Items, *regions: str, **answers: Any) -> Iterator[tuple[Gpufare, Azures]]:
    """gpufare after a pass over Azure's prices, without credentials."""
    with (
        azures(prices=of_region(items), **answers) as cloud,
        gpufare(folder, configured(cloud, *regions, keys={})) as app,
    ):
        app.sync("prices")
        yield app, cloud


def of_region(items: Items) -> Any:
    """The items of the region that is asked for, by case."""

    def answer(request: Request) -> Response:
        asked = request.args["$filter"]
        there = [one for one in items if f"armRegionName eq '{one['armRegionName']}'" in asked]
        return as_json({"Items": there, "NextPageLink": None})

    return answer


@contextmanager
def known(folder: Path, items: Items, *skus: Mapping[str, Any], usages: Items = ()) -> Iterator[Gpufare]:
    """gpufare after a pass over Azure with credentials: sizes and prices of eastus."""
    served = {"skus": as_json({"value": list(skus)}), "usages": as_json({"value": list(usages)})}
    with azures(prices=of_region(items), **served) as cloud, gpufare(folder, configured(cloud)) as app:
        app.sync("machines", "prices")
        yield app


def test_a_price_of_zero_is_none_and_the_next_region_is_the_answer(tmp_path: Path) -> None:
    """B001: an H100 at 0 in eastus and at 6.98 in westus3."""
    items = [item(0.0, H100), item(6.98, H100, armRegionName="westus3")]
    with priced(tmp_path, items, "eastus", "westus3") as (app, _):
        answer = app.cheapest("gpu=h100")
        assert (answer["verdict"], answer["best"]["region"]) == ("unconfirmed", "westus3")
        assert (answer["best"]["price_per_hour"], answer["best"]["currency"]) == ("6.98", "USD")
        assert answer["alternatives"] == []
        assert app.native("gpu=h100") == {
            ("eastus", H100, "on_demand"): None,
            ("westus3", H100, "on_demand"): "6.98",
        }
        assert app.feed("azure", "prices")["notes"]["non_positive_price"] == 1


def test_an_empty_price_answer_leaves_the_machine_without_a_price(tmp_path: Path) -> None:
    """B006."""
    with known(tmp_path, [], sku(ND, caps={"GPUs": "8", "LowPriorityCapable": None}, locationInfo=[])) as app:
        assert app.native("gpu=a100-40g&purchase=on_demand") == {("eastus", ND, "on_demand"): None}
        answer = app.cheapest("gpu=a100-40g&count=8")
        assert (answer["best"], answer["unconfirmed"], answer["alternatives"]) == (None, None, [])
        assert answer["rejected"]["no_price"] == 1


@pytest.mark.parametrize(
    ("size", "on_demand", "third", "spot"),
    [(ND, 27.197, 5.4394, 9.52), (A100, 3.673, 0.735, 1.10)],
    ids=["B017", "T4"],
)
def test_a_low_priority_meter_is_neither_price_in_any_order(
    tmp_path: Path, size: str, on_demand: float, third: float, spot: float
) -> None:
    """B017, T4."""
    rows = [item(on_demand, size), item(third, size, sku=" Low Priority"), item(spot, size, sku=" Spot")]
    for number, order in enumerate(permutations(rows)):
        folder = tmp_path / str(number)
        folder.mkdir()
        with priced(folder, order) as (app, _):
            assert app.native("gpu=a100") == {
                ("eastus", size, "on_demand"): f"{on_demand:g}",
                ("eastus", size, "spot"): f"{spot:g}",
            }


def test_a_whole_terms_price_is_never_an_hours(tmp_path: Path) -> None:
    """B019: 48318 for three years, in `1 Hour`."""
    term = reserved(48318.0, "3 Years", size=ND)
    for number, order in enumerate(permutations([term, item(27.197, ND)])):
        (tmp_path / str(number)).mkdir()
        with priced(tmp_path / str(number), order) as (app, _):
            assert app.best("gpu=a100-40g&count=8") == ("eastus", ND, "27.197")
            price = app.offer("gpu=a100-40g&purchase=reserved_3y")["native_price"]
            assert price["amount"] == "1.838584475"
            assert (price["upfront"]["amount"], price["upfront"]["months"]) == ("48318", 36)
    (tmp_path / "alone").mkdir()
    with priced(tmp_path / "alone", [term]) as (app, _):
        assert app.best("gpu=a100-40g&count=8") is None
        assert {one["purchase"] for one in app.offers("gpu=a100-40g")} == {"reserved_3y"}


def test_a_list_of_the_wrong_meters_leaves_yesterdays_price_to_age(tmp_path: Path) -> None:
    """B020: today there is Low Priority for Dev/Test on Windows alone, at 0.0096."""
    wrong = item(0.0096, T4, sku=" Low Priority", type="DevTestConsumption", productName="NCasT4_v3 Series Windows")
    today: list[Mapping[str, Any]] = [item(0.526, T4)]
    with azures(prices=of_region(today)) as cloud, gpufare(tmp_path, configured(cloud, keys={})) as app:
        app.sync("prices")
        yesterday = app.offer(f"instance_type={T4}")["native_price"]["observed_at"]
        app.later(days=1)
        today[:] = [wrong]
        app.sync("prices")
        price = app.offer(f"instance_type={T4}")["native_price"]
        assert (price["amount"], price["observed_at"]) == ("0.526", yesterday)
        assert price["age_s"] >= 86400


def test_a_list_of_the_wrong_meters_says_which_machine_has_none(tmp_path: Path) -> None:
    """B020: what the report says."""
    with priced(tmp_path, [item(0.0096, T4, sku=" Low Priority")]) as (app, _):
        assert ("no_price_on_demand", T4) in app.notes()


def test_a_size_without_vcpus_stops_nothing_and_meets_no_minimum(tmp_path: Path) -> None:
    """B036: a new size, of which nobody says how many vCPUs it has."""
    size = "Standard_NC25ads_A100_v4"
    bare = sku(size, caps={"vCPUs": None, "vCPUsAvailable": None})
    with known(tmp_path, [item(3.7, size)], bare) as app:
        assert app.cheapest("gpu=a100-80g")["best"]["vcpus"] is None
        assert app.best("gpu=a100-80g") == ("1", size, "3.7")
        assert app.best("gpu=a100-80g&min_vcpus=8") is None


@pytest.mark.parametrize("case", ["B042", "T9"])
def test_a_sixth_of_a_card_is_no_whole_one_whatever_azure_counts(tmp_path: Path, case: str) -> None:
    sixth = sku(A10, caps={"vCPUs": "6", "vCPUsAvailable": "6", "MemoryGB": "55", "GPUs": "1"}, locationInfo=[])
    with known(tmp_path, [item(0.454, A10)], sixth) as app:
        assert app.offers("gpu=a10&count=1&purchase=on_demand") == [], case
        assert app.offers("gpu=a10&min_vram=24&purchase=on_demand") == []
        one = app.offer("gpu=a10&purchase=on_demand")
        assert (one["gpu_count"], one["gpu_vram_gib"], amount(one)) == ("0.1667", 4, "0.454")


def test_blanks_around_names_keep_no_price_from_its_machine(tmp_path: Path) -> None:
    """B051."""
    padded = item(0.526, f"{T4} ", skuName=" NC4as T4 v3 ", meterName="NC4as T4 v3 ", productName="NCasT4_v3 Series ")
    with priced(tmp_path, [padded]) as (app, _):
        assert app.native() == {("eastus", T4, "on_demand"): "0.526"}


def test_filters_are_exact_and_lists_are_joined_whatever_the_case(tmp_path: Path) -> None:
    """B052: Azure's prices know `eastus` alone, its sizes say `EastUS` and `standard_nc4as_t4_v3`."""
    small = sku(T4.lower(), locations=["EastUS"], locationInfo=[{"location": "EastUS", "zones": []}])
    served = {"skus": as_json({"value": [small]}), "usages": as_json({"value": []})}
    with (
        azures(prices=of_region([item(0.526, T4)]), **served) as cloud,
        gpufare(tmp_path, configured(cloud, "EastUS")) as app,
    ):
        app.sync("machines", "prices")
        assert app.native("purchase=on_demand") == {("eastus", T4, "on_demand"): "0.526"}


def test_a_list_of_fourteen_pages_is_read_to_its_last_item(tmp_path: Path) -> None:
    """B055: 13 pages of 1000 and one of 7; the third link names the server by another name."""
    pages = [[item(1.0, f"Standard_D{page}s_v3")] * 1000 for page in range(13)]
    pages.append([item(9.9, "Standard_D99s_v3")] * 6 + [item(0.526, T4)])
    with azures() as cloud:
        cloud.answers["/prices"] = retail(*pages, hosts={2: cloud.url.replace("127.0.0.1", "localhost")})
        with gpufare(tmp_path, configured(cloud, keys={})) as app:
            assert app.statuses("prices") == {"azure prices eastus": "ok"}
            assert len(cloud.asked) == 14
            assert app.native() == {("eastus", T4, "on_demand"): "0.526"}
            assert app.feed("azure", "prices")["notes"]["skipped"] == 13_006


def test_an_answer_that_does_not_come_in_time_leaves_what_is_stored(tmp_path: Path) -> None:
    """B057: and only the region's own sizes with accelerators are asked for, which is a page or two."""
    slow_s = [0.0]

    def answer(_request: Request) -> Response:
        time.sleep(slow_s[0])  # it is the server that is slow
        return as_json({"Items": [item(0.526, T4)], "NextPageLink": None})

    with azures(prices=answer) as cloud, gpufare(tmp_path, configured(cloud, keys={}, seconds=0.3)) as app:
        app.sync("prices")
        asked = cloud.paths()[0].replace("%20", " ").replace("+", " ").replace("%27", "'")
        for part in ("serviceName eq 'Virtual Machines'", "armRegionName eq 'eastus'", "'Standard_N'"):
            assert part in asked
        slow_s[0] = 1.0
        assert app.statuses("prices") == {"azure prices eastus": "failed"}
        assert app.native() == {("eastus", T4, "on_demand"): "0.526"}


def test_a_size_that_nobody_sells_any_more_is_listed_without_a_price(tmp_path: Path) -> None:
    """B078."""
    old = "Standard_ND112asr_A100_v4"
    gone = sku(old, caps={"GPUs": "8", "LowPriorityCapable": None}, locationInfo=[])
    with known(tmp_path, [item(27.197, ND), item(9.0, T4)], gone, sku(T4)) as app:
        answer = app.cheapest("gpu=a100-40g&count=8")
        assert (answer["best"], answer["unconfirmed"]) == (None, None)
        assert app.native(f"instance_type={old}") == {("eastus", old, "on_demand"): None}


def test_azure_china_borrows_no_prices_of_the_global_cloud(tmp_path: Path) -> None:
    """B138: its own price sheet, or none."""
    with azures(prices=of_region([item(0.526, T4, armRegionName="chinanorth3")])) as cloud:
        with gpufare(tmp_path, configured(cloud, "chinanorth3", keys={}, site="cn")) as app:
            assert app.statuses("prices") == {"azure prices": "failed"}
            assert app.native() == {}
            cloud.answers |= {"/download": link, "/file.csv": sheet(china_row(5.62, size=T4))}
            assert app.statuses("prices") == {"azure prices": "ok"}
            one = app.offer()
            assert (one["region"], one["native_price"]["currency"], amount(one)) == ("chinanorth3", "CNY", "5.62")
            assert (one["country"], one["mainland_china"], one["site"]) == ("CN", True, "cn")
        assert {path.partition("?")[0] for path in cloud.paths()} == {
            "/api/retail/pricesheet/download",
            "/retail/file.csv",
        }


# --- What the contract says of Azure, beside the cases

ZONE_2 = {"type": "Zone", "restrictionInfo": {"zones": ["2"]}, "reasonCode": "NotAvailableForSubscription"}
EVERYWHERE = {"type": "Location", "restrictionInfo": {"locations": ["eastus"]}, "reasonCode": "QuotaId"}


def test_what_is_restricted_is_never_the_answer_and_is_not_out(tmp_path: Path) -> None:
    items = [item(3.673, A100), item(1.0, A100, sku=" Spot"), item(9.0, H100), reserved(24132, size=A100)]
    skus = [sku(A100, restrictions=[EVERYWHERE]), sku(H100, family="h100", caps={"vCPUsAvailable": "40"})]
    with known(tmp_path, items, *skus) as app:
        for query in ("gpu=a100-80g", "gpu=a100-80g&spot=true", "gpu=a100-80g&purchase=reserved_1y"):
            answer = app.cheapest(query)
            assert (answer["best"], answer["unconfirmed"], answer["alternatives"]) == (None, None, []), query
            assert answer["rejected"] == {"restricted": 9, "purchase": 6}, query
        stock = app.offers("gpu=a100-80g&purchase=on_demand&zone=1")[0]["stock"]
        assert (stock["level"], stock["evidence"], stock["detail"]) == ("unknown", "listed", "restricted: QuotaId")
        assert app.best("gpu=a100,h100") == ("1", H100, "9")


def test_a_restricted_zone_leaves_the_others_to_be_answered(tmp_path: Path) -> None:
    with known(tmp_path, [item(3.673, A100)], sku(A100, restrictions=[ZONE_2])) as app:
        answer = app.cheapest("gpu=a100-80g&explain=true")
        zones = [answer["best"]["zone"], *(one["zone"] for one in answer["alternatives"])]
        assert (zones, answer["rejected"]) == (["1", "3"], {"restricted": 2, "purchase": 3, "no_price": 3})


def test_a_quota_of_zero_restricts_and_one_that_is_granted_does_not(tmp_path: Path) -> None:
    limit = [0]
    served = {
        "skus": as_json({"value": [sku(A100)]}),
        "usages": lambda _asked: as_json({"value": [usage("StandardNCADSA100v4Family", limit[0])]}),
        "prices": of_region([item(3.673, A100), item(1.0, A100, sku=" Spot")]),
    }
    with azures(**served) as cloud, gpufare(tmp_path, configured(cloud)) as app:
        app.sync("machines", "prices")
        assert app.cheapest("gpu=a100-80g")["rejected"]["restricted"] == 3, "in three zones"
        assert app.best("gpu=a100-80g&spot=true") == ("1", A100, "1"), "spot has a quota of its own"
        limit[0] = 24
        app.later(hours=6)
        app.sync("machines")
        assert app.best("gpu=a100-80g") == ("1", A100, "3.673")


def test_a_quota_is_told_beside_what_is_listed_and_offers_nothing_by_itself(tmp_path: Path) -> None:
    family = "StandardNCADSA100v4Family"
    usages = [usage(family, 95, 48), usage("cores", 350, 60), usage("lowPriorityCores", 10)]
    served = {
        "skus": as_json({"value": [sku(A100), sku("Standard_NC96ads_A100_v4", caps={"vCPUsAvailable": "96"})]}),
        "usages": as_json({"value": usages}),
        "prices": of_region([item(3.673, A100), item(14.692, "Standard_NC96ads_A100_v4")]),
    }
    with azures(**served) as cloud, gpufare(tmp_path, configured(cloud)) as app:
        app.sync("machines", "prices")
        (stock,) = {
            (one["stock"]["level"], one["stock"]["evidence"], one["stock"]["detail"], one["stock"]["confirmed"])
            for one in app.offers(f"instance_type={A100}&purchase=on_demand")
        }
        words = f"quota {family}: 48 of 95 vCPUs used; quota cores: 60 of 350 vCPUs used"
        assert stock == ("unknown", "listed", words, False)
        assert app.best("gpu=a100-80g") == ("1", A100, "3.673")
        full = app.offers("instance_type=Standard_NC96ads_A100_v4&purchase=on_demand")
        assert {one["stock"]["detail"] for one in full} == {
            f"restricted: NO_QUOTA: {family} 48 of 95 vCPUs used, one machine takes 96"
        }
        assert app.cheapest("gpu=a100-80g&count=1&spot=true")["best"] is None
        purchases = {one["purchase"] for one in app.offers("gpu=a100-80g")}
        assert purchases == {"on_demand", "spot"}, "neither a quota nor its lack sells a reservation"


def test_a_quota_that_is_used_up_when_it_is_read_takes_nothing_from_the_answer(tmp_path: Path) -> None:
    """What is used is hours old: the machine that used it may be deleted a minute after the poll."""
    family = "StandardNCADSA100v4Family"
    served = {
        "skus": as_json({"value": [sku(A100)]}),
        "usages": as_json({"value": [usage(family, 24, 24)]}),
        "prices": of_region([item(3.673, A100)]),
    }
    with azures(**served) as cloud, gpufare(tmp_path, configured(cloud)) as app:
        app.sync("machines", "prices")
        assert app.best("gpu=a100-80g") == ("1", A100, "3.673")
        details = {one["stock"]["detail"] for one in app.offers("gpu=a100-80g&purchase=on_demand")}
        assert details == {f"quota {family}: 24 of 24 vCPUs used"}
        assert app.cheapest("gpu=a100-80g")["rejected"].get("restricted", 0) == 0


def test_regions_that_fail_harm_no_others(tmp_path: Path) -> None:
    def answer(request: Request) -> Response:
        return as_json({}, 503) if "westus2" in request.args["$filter"] else of_region([item(3.673, A100)])(request)

    with azures(prices=answer) as cloud, gpufare(tmp_path, configured(cloud, "eastus", "westus2", keys={})) as app:
        assert app.statuses("prices") == {"azure prices eastus": "ok", "azure prices westus2": "failed"}
        assert app.native() == {("eastus", A100, "on_demand"): "3.673"}


RESTRICTED: Mapping[str, Any] = {
    "level": Level.UNKNOWN,
    "evidence": Evidence.LISTED,
    "detail": "restricted: NO_QUOTA: x 0 of 0 vCPUs used",
}
SCORED: Mapping[str, Any] = {"level": Level.UNKNOWN, "evidence": Evidence.SCORED, "score": "High", "detail": "High"}


@pytest.mark.parametrize("zone", [None, "1"], ids=["region", "zone"])
@pytest.mark.parametrize("order", [1, -1])
def test_a_restriction_goes_before_a_score_of_its_place_or_of_a_zone(
    tmp_path: Path, zone: str | None, order: int
) -> None:
    """Whichever was read last. What is restricted makes no offer by itself: nobody sells this machine reserved."""
    of: Any = {"region": "r1", "instance_type": "m"}
    sold: Any = {"gpu": "t4", "gpu_count": Fraction(1), "purchases": frozenset({Purchase.SPOT})}
    both = frozenset({Purchase.SPOT, Purchase.RESERVED_1Y})
    spot = Price(**of, purchase=Purchase.SPOT, nanos=10**9, currency="USD", source="list")
    machines = [
        Machine(**of, **sold),
        Offered(**of, zone="1"),
        spot,
        Stock(**of, zone=zone, purchases=both, **RESTRICTED),
    ]
    scores = [Stock(**of, zone="1", purchases=frozenset({Purchase.SPOT}), **SCORED)]
    feeds = [
        ScriptedFeed(name=name, script=always(says(*facts)))
        for name, facts in (("machines", machines), ("scores", scores))
    ]
    with gpufare(tmp_path, scripted(*feeds)) as app:
        for name in ("machines", "scores")[::order]:
            app.sync(name)
            app.later(minutes=2)
        one = app.offer()
        assert (one["zone"], one["purchase"], one["stock"]["detail"]) == ("1", "spot", RESTRICTED["detail"])
        assert app.cheapest("gpu=t4&spot=true")["best"] is None


def test_that_spot_is_restricted_ends_with_the_score_that_said_so_and_not_with_a_list(tmp_path: Path) -> None:
    of: Any = {"region": "r1", "instance_type": "m"}
    spot = frozenset({Purchase.SPOT})
    machines: list[Fact] = [
        Machine(**of, gpu="t4", gpu_count=Fraction(1), purchases=spot),
        Offered(**of, zone="1"),
        Price(**of, purchase=Purchase.SPOT, nanos=10**9, currency="USD", source="list"),
    ]
    refused: Any = {**SCORED, "score": None, "detail": "restricted: no spot quota"}
    by_score = Stock(**of, zone="1", purchases=spot, **refused)
    lists = ScriptedFeed(name="machines", fresh_for=timedelta(hours=24), script=always(says(*machines)))
    scores = ScriptedFeed(name="scores", fresh_for=timedelta(hours=1), script=always(says(by_score)))
    with gpufare(tmp_path, scripted(lists, scores)) as app:
        app.sync()
        assert app.cheapest("gpu=t4&spot=true")["rejected"] == {"restricted": 1}
        app.later(minutes=61)
        answer = app.cheapest("gpu=t4&spot=true")
        assert (answer["verdict"], answer["best"]["zone"]) == ("unconfirmed", "1")
        assert app.cheapest("gpu=t4&spot=true&max_age=3h")["best"] is None, "an age that is asked for counts instead"
        app.sync("scores")
        assert app.cheapest("gpu=t4&spot=true")["best"] is None
        by_list = Stock(**of, zone="1", purchases=spot, **RESTRICTED)
        lists.script = always(says(*machines, by_list))
        app.sync("machines")
        app.later(hours=30)
        assert app.cheapest("gpu=t4&spot=true")["best"] is None


def test_a_size_that_cannot_be_spot_is_not_the_answer_though_a_spot_price_is_listed(tmp_path: Path) -> None:
    items = [item(3.673, A100), item(1.0, A100, sku=" Spot")]
    with known(tmp_path, items, sku(A100, caps={"LowPriorityCapable": "False"})) as app:
        answer = app.cheapest("gpu=a100-80g&spot=true")
        assert (answer["best"], answer["rejected"]["restricted"]) == (None, 3)
        assert app.best("gpu=a100-80g") == ("1", A100, "3.673")
        (detail,) = {one["stock"]["detail"] for one in app.offers("gpu=a100-80g&purchase=spot")}
        assert detail == "restricted: not capable of spot"


@pytest.mark.parametrize("status", [429, 503])
def test_scores_are_asked_for_once_a_poll_whatever_goes_wrong(tmp_path: Path, status: int) -> None:
    with azures(generate=as_json({"error": {"code": "x"}}, status)) as cloud:
        services = {"management": cloud.url, "retail": cloud.url}
        told = Config(KEYS, ("eastus",), None, services, scores=True)
        with gpufare(tmp_path, Configured(provider("azure", told), told)) as app:
            found = app.statuses("scores")
    assert (len(found), set(found.values())) == (4, {"failed"})
    assert len(cloud.asked) <= 4


def test_a_zone_that_is_restricted_leaves_unpriced_zones_listed(tmp_path: Path) -> None:
    with known(tmp_path, [], sku(A100, restrictions=[ZONE_2], caps={"LowPriorityCapable": None})) as app:
        found = {(one["zone"], one["purchase"]): one["stock"]["detail"] for one in app.offers("gpu=a100-80g")}
        why = "restricted: NotAvailableForSubscription"
        assert found == {("1", "on_demand"): None, ("2", "on_demand"): why, ("3", "on_demand"): None}


def test_the_simulated_azure_is_polled_to_offers(tmp_path: Path) -> None:
    """Places name the regions, which the other feeds then ask about; nothing fails."""
    with simcloud.start("demo", providers=("azure",)) as sim:
        services = dict.fromkeys(("management", "retail", "login"), sim.url("azure"))
        told = Config({name: sim.env()[name] for name in KEYS}, (), None, services, scores=True)
        with gpufare(tmp_path, Configured(provider("azure", told), told)) as app:
            app.sync("places")
            app.sync()
            assert set(app.statuses().values()) == {"ok"}
            answer = app.cheapest("gpu=h100-80g&count=8")
            assert (answer["verdict"], answer["best"]["region"]) == ("unconfirmed", "eastus")
            assert (answer["best"]["zone"], answer["best"]["zone_id"]) == ("1", "eastus-az1")
            assert answer["best"]["native_price"]["amount"] == "98.32"
            spot = app.offers("instance_type=Standard_NC4as_T4_v3&purchase=spot&region=eastus&zone=1")[0]
            assert (spot["stock"]["evidence"], spot["stock"]["score"]) == ("scored", "High")
            assert not spot["stock"]["confirmed"]
            assert {
                one["stock"]["detail"] for one in app.offers("region=swedencentral&gpu=h100-80g&purchase=on_demand")
            } == {"restricted: NO_QUOTA: standardNDSH100v5Family 0 of 0 vCPUs used"}
