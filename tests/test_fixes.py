"""The one change of a question that would give an answer: it does, it is the cheapest, and it is put into words."""

from datetime import timedelta
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog.offers import Offer
from catalog.spec import ONE_GPU, Spec
from selector.fixes import FIXABLE
from selector.question import understand
from selector.rank import rank
from selector.ranking import Change, Fix
from selector.reasons import Code
from selector.why_not import why_not
from tests.support.offers import Here, index_of, offer
from tests.test_selector_properties import CONTEXT, offers_lists, questions

_strict = st.fixed_dictionaries(
    {},
    optional={
        "nvlink": st.just("true"),
        "rdma": st.just("true"),
        "bare_metal": st.just("false"),
        "min_vram": st.sampled_from(["24", "100"]),
        "min_total_vram": st.just("81"),
        "min_tflops": st.sampled_from(["66", "1000"]),
        "min_vcpus_per_gpu": st.sampled_from(["5", "12"]),
        "min_memory_per_vcpu": st.just("8.5"),
        "provider": st.sampled_from(["aws", "!aws"]),
        "country": st.sampled_from(["US", "!CN"]),
        "mainland_china": st.just("true"),
        "vendor": st.just("amd"),
        "instance_type": st.sampled_from(["m1", "!m1", "x*"]),
        "compliance": st.just("soc2"),
        "max_price": st.sampled_from(["0.123456789", "0.5"]),
        "max_price_per_gpu": st.sampled_from(["0.3", "0.333333333"]),
        "stock": st.just("confirmed"),
        "zone": st.sampled_from(["a", "!a"]),
    },
)


ZONED = Here(
    offers=[
        offer("tencent", "r1", "a", instance_type="m1"),
        offer("tencent", "r1", "b", instance_type="m2"),
        offer("tencent", "r2", "a", instance_type="m3"),
        offer("tencent", "r3"),
        offer("aws", "r1", "a", country="US"),
    ]
).world()


def understood(question: dict[str, str]) -> Spec | None:
    """None for a question that contradicts itself."""
    try:
        return understand({name: [text] for name, text in question.items()}, ZONED, {}, endpoint="cheapest")
    except ValueError:
        return None


def changed(question: dict[str, str], change: Change) -> dict[str, str]:
    """The question with that one parameter said otherwise."""
    also = {"spot"} if change.parameter == "purchase" else set()  # which is short for it
    rest = {name: text for name, text in question.items() if name not in {change.parameter, *also}}
    return rest if change.value is None else {**rest, change.parameter: change.value}


@settings(max_examples=400)
@given(offers_lists, questions, _strict)
def test_a_question_changed_as_told_is_answered(
    offers: list[Offer], question: dict[str, str], strict: dict[str, str]
) -> None:
    asked = question | strict
    spec = understood(asked)
    if spec is None:
        return
    ranking = rank(index_of(offers), spec, CONTEXT)
    asked_for = [each for each in offers if spec.gpus is None or each.machine.gpu in spec.gpus]
    against = {id(each): why_not(each, spec, CONTEXT) for each in asked_for}
    near = [each for each in offers if [reason.code in FIXABLE for reason in against.get(id(each), ())] == [True]]
    if ranking.best is not None or not near:
        assert ranking.fix is None
        return
    assert ranking.fix is not None
    _assert_cheapest(ranking.fix, near, spec)
    then = understood(changed(asked, ranking.fix.change))
    assert then is not None
    assert why_not(ranking.fix.miss.offer, then, CONTEXT) == ()
    assert rank(index_of(offers), then, CONTEXT).best is not None


def _assert_cheapest(fix: Fix, near: list[Offer], spec: Spec) -> None:
    by_count = [each for each in near if why_not(each, spec, CONTEXT)[0].code is Code.GPU_COUNT]
    among = by_count if by_count and spec.counts == (ONE_GPU,) else near
    prices = {id(each): CONTEXT.nanos(each, spec.currency) for each in among}
    per_gpu = [_per_gpu(each, prices[id(each)]) for each in among]
    assert _per_gpu(fix.miss.offer, fix.miss.nanos) == min(per_gpu)


def _per_gpu(each: Offer, nanos: int | None) -> tuple[bool, Fraction]:
    """Unknown last."""
    count = each.machine.gpu_count
    return (nanos is None, Fraction(nanos or 0) / (count or 1))


@pytest.mark.parametrize(
    ("only", "asked", "told"),
    [
        (offer(count=8, price="9"), {"gpu": "a100-80g", "count": "2"}, "count=8"),
        (offer(gpu="l4", price="9"), {"min_vram": "40"}, "min_vram=24"),
        (offer(vcpus=6), {"min_vcpus_per_gpu": "12"}, "min_vcpus_per_gpu=6"),
        (offer(price="3.20001", currency="USD"), {"max_price": "3"}, "max_price=3.2001"),
        (offer(price="3.2", count=2), {"max_price_per_gpu": "1.5", "count": "2"}, "max_price_per_gpu=1.6"),
        (offer(purchase="spot"), {}, "purchase=spot"),
        (offer(), {"spot": "true"}, "purchase=on_demand"),
        (offer("tencent", "ap-beijing"), {"region": "ap-guangzhou"}, "fallback=tencent:ap-beijing"),
        (offer("tencent", "ap-beijing", "ap-beijing-1"), {"zone": "ap-beijing-2", "gpu": "a100"}, "zone"),
        (offer("runpod", "US", country="US", hosting="community"), {}, "hosting=community"),
        (offer(), {"provider": "aws"}, "provider=tencent"),
        (offer(), {"country": "SG"}, "country=CN"),
        (offer(nvlink=False), {"nvlink": "true"}, "nvlink"),
        (offer(), {"rdma": "true"}, "rdma"),
        (offer(evidence="listed", level="unknown"), {"stock": "confirmed"}, "stock=prefer"),
        (offer(age=timedelta(hours=1)), {"stock": "confirmed"}, "stock=prefer"),
    ],
)
def test_each_reason_that_can_be_asked_away_has_its_change(only: Offer, asked: dict[str, str], told: str) -> None:
    here = Here(offers=[only, offer("tencent", "ap-beijing", "ap-beijing-2", gpu="t4", level="out")])
    fix = here.cheapest(**({"gpu": only.machine.gpu or ""} | asked)).fix
    assert fix is not None
    assert fix.change == Change(*told.split("=")) if "=" in told else Change(told, None)
    assert fix.miss.offer == only


@pytest.mark.parametrize(
    "only",
    [
        offer(level="out"),
        offer(price=None),
        offer(currency="ISK"),
        offer(level="unknown", detail="restricted: quota"),
        offer(count=None),
        offer(count=8, level="out"),
    ],
    ids=["out of stock", "without a price", "without a rate", "restricted", "count unknown", "two reasons"],
)
def test_what_no_question_can_change_is_no_fix(only: Offer) -> None:
    assert Here(offers=[only]).cheapest(gpu="a100-80g").fix is None


def test_nothing_is_to_fix_where_there_is_an_answer() -> None:
    here = Here(offers=[offer(price="2"), offer(price="1", purchase="spot")])
    assert here.cheapest(gpu="a100-80g", explain="true").fix is None


def test_who_says_no_count_is_told_of_a_count_though_something_else_is_cheaper() -> None:
    fix = Here(offers=[offer(count=8, price="9"), offer(price="1", purchase="spot")]).cheapest(gpu="a100-80g").fix
    assert fix is not None
    assert str(fix.change) == "with count=8"


def test_of_changes_the_cheapest_per_gpu_is_told() -> None:
    one, spot = offer(price="3.29", instance_type="ONE"), offer(price="14", count=8, purchase="spot")
    fix = Here(offers=[one, spot, offer(price="24", count=8)]).cheapest(gpu="a100-80g", count="8", max_price="20").fix
    assert fix is not None
    assert (str(fix.change), fix.miss.offer) == ("with purchase=spot", spot)


def test_the_sentence_names_the_nearest_miss_and_the_cheapest_change() -> None:
    sold_out = offer(price="1", level="out", instance_type="NEAR")
    spot = offer(price="2", purchase="spot", instance_type="SPOT", level="unknown", evidence="listed")
    dear = offer(price="5", region="ap-beijing", instance_type="DEAR")
    said = Here(offers=[sold_out, spot, dear]).said(gpu="a100-80g", max_price="4", count="1..")
    assert said == (
        "a100-80g is out of stock at ap-guangzhou; nearest: 1 x NVIDIA A100 80GB SXM4, NEAR at tencent ap-guangzhou, "
        "1 USD per hour (out of stock); with purchase=spot there is 1 x NVIDIA A100 80GB SXM4, SPOT at tencent "
        "ap-guangzhou, 2 USD per hour, unconfirmed."
    )
