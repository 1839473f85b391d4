"""Field cases of Alibaba Cloud, end to end: which card, what is for sale where, and at which price."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from werkzeug import Request, Response

from scheduler.plan import Configured
from tests.support.alibaba import Json, kind, part, row, spot_row, zone
from tests.support.endtoend import Gpufare, amount, gpufare, real
from tests.support.wires import answering, as_json

KEYS = {"ALIBABA_CLOUD_ACCESS_KEY_ID": "id", "ALIBABA_CLOUD_ACCESS_KEY_SECRET": "key"}
EIGHT = {"GPUSpec": "NVIDIA A800", "GPUAmount": 8, "GPUMemorySize": 80.0, "CpuCoreCount": 128, "MemorySize": 1024.0}
A800 = "ecs.zz7.8x"


@dataclass
class AlibabaSays:
    """Alibaba's answers in one region; `asked` is every action with its region and what it was about."""

    types: Sequence[Json] = (kind(A800, **EIGHT),)
    zones: Mapping[str, Sequence[Json]] = field(default_factory=dict)
    """Way to buy -> its zones."""
    price: Callable[[str], Json | Response] = lambda unit: dear(unit, 80)
    spot: Sequence[Json] = ()
    currency: str = "CNY"
    asked: list[str] = field(default_factory=list)

    def __call__(self, request: Request) -> Response:
        """Answer one action."""
        action, asked = request.headers["x-acs-action"], request.args
        charge = "PrePaid" if asked.get("InstanceChargeType") == "PrePaid" else asked.get("SpotStrategy", "")
        about = asked.get("InstanceType") or {"NoSpot": "PostPaid"}.get(charge, charge)
        self.asked.append(" ".join(filter(None, (action, asked.get("RegionId"), about, asked.get("PriceUnit")))))
        if action == "DescribeRegions":
            return as_json({"Regions": {"Region": [{"RegionId": "cn-test-1", "Status": "available"}]}})
        if action == "DescribeInstanceTypes":
            return as_json({"RequestId": "r", "NextToken": "", "InstanceTypes": {"InstanceType": list(self.types)}})
        if action == "DescribeAvailableResource":
            return as_json({"RequestId": "r", "AvailableZones": {"AvailableZone": list(self.zones.get(about, ()))}})
        if action == "DescribePrice":
            answer = self.price(asked["PriceUnit"])
            return answer if isinstance(answer, Response) else as_json(answer)
        if action == "DescribeSpotPriceHistory":
            rows = {"SpotPrices": {"SpotPriceType": list(self.spot)}}
            return as_json({"RequestId": "r", "Currency": self.currency, "NextOffset": 0, **rows})
        return as_json({"RequestId": "r", "AvailableSpotZones": {"AvailableSpotZone": []}})


def dear(unit: str, hour: int, currency: str = "CNY") -> Json:
    """A price that is taken apart: so much an hour, 400 times that a month, and a disk beside."""
    own = hour * (400 if unit == "Month" else 1)
    parts = [part(TradePrice=own, OriginalPrice=own), part("systemDisk", TradePrice=1, OriginalPrice=1)]
    return {"PriceInfo": {"Price": {"Currency": currency, "TradePrice": own + 1, "DetailInfos": {"DetailInfo": parts}}}}


@contextmanager
def alibaba(says: AlibabaSays, site: str = "cn") -> Iterator[Configured]:
    with answering(says) as url:
        yield real("alibaba", "cn-test-1", site=site, environ=KEYS, ecs=url)


@contextmanager
def synced(folder: Path, says: AlibabaSays, site: str = "cn") -> Iterator[Gpufare]:
    """gpufare after a pass over Alibaba."""
    with alibaba(says, site) as provider, gpufare(folder, provider) as app:
        assert {row.result.status for row in app.sync()} == {"ok"}
        yield app


def test_a_card_made_for_china_is_not_the_one_it_is_named_after(tmp_path: Path) -> None:
    """B041."""
    h20 = EIGHT | {"GPUSpec": "NVIDIA H20", "GPUMemorySize": 96.0}
    types = (kind(A800, **EIGHT), kind("ecs.zz7e.8x", **h20))
    with synced(tmp_path, AlibabaSays(types, {"PostPaid": [zone(row(A800), row("ecs.zz7e.8x"))]})) as app:
        named = {
            gpu: [one["instance_type"] for one in app.offers(f"gpu={gpu}&purchase=on_demand")]
            for gpu in ("a100-80g", "a800", "h20", "h200")
        }
        assert named == {"a100-80g": [], "a800": [A800], "h20": ["ecs.zz7e.8x"], "h200": []}


def test_a_type_in_the_list_is_not_for_sale_by_that_and_no_purchase_inherits_anothers_stock(tmp_path: Path) -> None:
    """B073."""
    types = (kind("ecs.zz3.large"), kind(A800, **EIGHT))
    says = AlibabaSays(types, {"PostPaid": [zone(row(A800))]})
    with synced(tmp_path, says) as app:
        in_stock = {key for key, level in app.levels().items() if level == "in_stock"}
        assert in_stock == {("cn-test-1a", A800, "on_demand")}
        assert "DescribeAvailableResource cn-test-1 SpotAsPriceGo" in says.asked, "spot needs a question of its own"
        assert not [one for one in says.asked if "zz3" in one], "nobody asks for the price of what nobody sells"


def test_a_closed_zone_is_out_whatever_its_machines_say_and_a_limited_one_comes_last(tmp_path: Path) -> None:
    """B075."""
    zones = [
        zone(row(A800, category="ClosedWithStock")),
        zone(row(A800), name="cn-test-1b", status="SoldOut", category="WithoutStock"),
        zone(row(A800), name="cn-test-1c"),
    ]
    with synced(tmp_path, AlibabaSays(zones={"PostPaid": zones})) as app:
        levels = {where: level for (where, _, purchase), level in app.levels().items() if purchase == "on_demand"}
        assert levels == {"cn-test-1a": "low", "cn-test-1b": "out", "cn-test-1c": "in_stock"}
        answer = app.cheapest("gpu=a800&region=cn-test-1&count=8")
        assert answer["best"]["zone"] == "cn-test-1c"
        assert [one["zone"] for one in answer["alternatives"]] == ["cn-test-1a"]


def test_the_price_is_what_is_paid_in_the_currency_that_the_answer_states(tmp_path: Path) -> None:
    """B091: an account of each site; a total without its parts, so an estimate."""
    said = {
        "cn": {"Currency": "CNY", "OriginalPrice": 100.0, "DiscountPrice": 20.0, "TradePrice": 80.0},
        "intl": {"Currency": "USD", "OriginalPrice": 15.0, "TradePrice": 15.0},
    }
    for site, expected in (("cn", ("80", "CNY")), ("intl", ("15", "USD"))):
        price: Json = {"RequestId": "r", "PriceInfo": {"Price": said[site]}}
        says = AlibabaSays(zones={"PostPaid": [zone(row(A800))]}, price={"Hour": price, "Month": price}.__getitem__)
        (tmp_path / site).mkdir()
        with synced(tmp_path / site, says, site) as app:
            one = app.offer("gpu=a800&purchase=on_demand")
            assert (amount(one), one["native_price"]["currency"]) == expected
            assert one["native_price"]["estimated"]


def test_the_spot_price_is_the_latest_of_its_network_and_not_the_one_beside_it(tmp_path: Path) -> None:
    """B092."""
    rows = [
        spot_row("2024-05-01T09:00:00Z", 12.5, ZoneId="cn-test-1a", InstanceType=A800),
        spot_row("2024-05-01T09:00:00Z", 9.0, ZoneId="cn-test-1a", InstanceType=A800, NetworkType="classic"),
        spot_row("2024-05-01T08:00:00Z", 11.0, ZoneId="cn-test-1a", InstanceType=A800),
    ]
    says = AlibabaSays(zones={"PostPaid": [zone(row(A800))], "SpotAsPriceGo": [zone(row(A800))]}, spot=rows)
    with synced(tmp_path, says) as app:
        assert app.native("purchase=spot,on_demand") == {
            ("cn-test-1a", A800, "spot"): "12.5",
            ("cn-test-1a", A800, "on_demand"): "80",
        }


def test_prices_are_asked_for_after_the_stock_and_join_it_in_its_zones(tmp_path: Path) -> None:
    both = [zone(row(A800)), zone(row(A800), name="cn-test-1b")]
    says = AlibabaSays(zones={"PostPaid": both, "PrePaid": both})
    with synced(tmp_path, says) as app:
        assert app.native() == {
            ("cn-test-1a", A800, "on_demand"): "80",
            ("cn-test-1b", A800, "on_demand"): "80",
            ("cn-test-1a", A800, "month"): "43.835616438",
            ("cn-test-1b", A800, "month"): "43.835616438",
        }
        assert says.asked.count(f"DescribePrice cn-test-1 {A800} Hour") == 1
        assert app.best("gpu=a800&count=8&currency=CNY") == ("cn-test-1a", A800, "80")
        app.later(minutes=2)
        app.sync("stock")
        assert says.asked.count(f"DescribePrice cn-test-1 {A800} Hour") == 1, "a day is not over"


def test_an_empty_success_leaves_what_is_known_and_says_that_it_failed(tmp_path: Path) -> None:
    """The answer of a wrong endpoint is no "sold out"."""
    says = AlibabaSays(zones={"PostPaid": [zone(row(A800))]})
    with alibaba(says) as provider, gpufare(tmp_path, provider) as app:
        app.sync()
        with answering(lambda _request: as_json({"RequestId": "r"})) as wrong:
            app.configured = [real("alibaba", "cn-test-1", site="cn", environ=KEYS, ecs=wrong)]
            app.later(minutes=3)
            assert set(app.statuses("stock").values()) == {"failed"}
        assert app.levels("purchase=on_demand") == {("cn-test-1a", A800, "on_demand"): "in_stock"}
        assert app.feed("alibaba", "stock")["status"] != "ok"


def test_a_machine_that_is_not_sold_here_is_no_failure(tmp_path: Path) -> None:
    refusal = Response(
        '{"Code": "InvalidInstanceType.ValueNotSupported", "Message": "m", "RequestId": "r"}',
        400,
        content_type="application/json",
    )
    says = AlibabaSays(zones={"PostPaid": [zone(row(A800))]}, price=lambda _unit: refusal)
    with alibaba(says) as provider, gpufare(tmp_path, provider) as app:
        found = app.statuses()
        assert found[f"alibaba prices cn-test-1 {A800}"] == "ok"
        assert ("not_sold_here", f"{A800} Hour") in app.notes()
        assert app.offer("purchase=on_demand")["native_price"] is None
