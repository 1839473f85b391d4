"""The one change of a question that would give an answer: it does, it is the cheapest, and it is put into words."""

from dataclasses import replace
from datetime import timedelta
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog.offers import Offer
from catalog.spec import ONE_GPU, Sort, Spec, StockWish
from catalog.words import Hosting
from selector.fixes import FIXABLE, change_for
from selector.index import Index
from selector.job import JobCosts
from selector.measures import total_vram_gib
from selector.question import asking, understand
from selector.rank import rank
from selector.ranking import Change, Match
from selector.why_not import Standing, is_stale, standing, why_not
from tests.support.offers import RATES, Here, index_of, offer, unasked
from tests.test_selector_properties import CONTEXT, questions
from tests.test_selector_properties import _rows as rows

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
        "compliance": st.sampled_from(["soc2", "!soc2"]),
        "spot": st.sampled_from(["true", "false"]),
        "sort": st.sampled_from(["price", "price_per_vram", "job_cost"]),
        "hours": st.just("10"),
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


_hosted = st.builds(
    lambda each, host: replace(each, machine=replace(each.machine, hosting=host)),
    rows,
    st.sampled_from([Hosting.DATACENTER, Hosting.DATACENTER, Hosting.COMMUNITY]),
)
_defaults = st.fixed_dictionaries(
    {}, optional={"nvlink": st.just("true"), "min_vram": st.just("40"), "country": st.just("CN"), "count": st.just("2")}
)


def understood(question: dict[str, str], defaults: dict[str, str]) -> Spec | None:
    """None for a question that contradicts itself."""
    try:
        return understand({name: [text] for name, text in question.items()}, ZONED, defaults, endpoint="cheapest")
    except ValueError:
        return None


def changed(question: dict[str, str], change: Change) -> dict[str, str]:
    """The question with that one parameter said otherwise."""
    rest = {name: text for name, text in question.items() if name != change.parameter}
    return rest if change.value is None else {**rest, change.parameter: change.value}


@settings(max_examples=400)
@given(st.lists(_hosted, max_size=14, unique_by=lambda each: each.sort_key()), questions, _strict, _defaults)
def test_a_question_changed_as_told_is_answered(
    offers: list[Offer], question: dict[str, str], strict: dict[str, str], defaults: dict[str, str]
) -> None:
    asked = question | strict
    spec = understood(asked, defaults)
    if spec is None:
        return
    index = index_of(offers)
    ranking = rank(index, spec, CONTEXT, asking({name: [text] for name, text in asked.items()}, ZONED, defaults))
    near = [each for each in _asked_for(offers, spec) if _change(each, spec) is not None]
    answers = {change: _then(asked, defaults, change, index) for each in near if (change := _change(each, spec))}
    possible = {change: match for change, match in answers.items() if match is not None}
    if ranking.best is not None or not possible:
        assert ranking.fix is None
        return
    assert ranking.fix is not None
    assert ranking.fix.match == answers[ranking.fix.change], "what is told is what the changed question is answered"
    by_count = {change: match for change, match in possible.items() if change.parameter == "count"}
    unsaid = by_count and spec.counts == (ONE_GPU,) and "count" not in spec.said
    among = (by_count if unsaid else possible).values()
    assert _worth(ranking.fix.match.offer, spec) == min(_worth(each.offer, spec) for each in among)


def _then(asked: dict[str, str], defaults: dict[str, str], change: Change, index: Index) -> Match | None:
    """What the question so changed is answered with, told of every way to ask it."""
    then = understood(changed(asked, change), defaults)
    return None if then is None else rank(index, then, CONTEXT, unasked).best


def _asked_for(offers: list[Offer], spec: Spec) -> list[Offer]:
    return [each for each in offers if spec.gpus is None or each.machine.gpu in spec.gpus]


def _change(each: Offer, spec: Spec) -> Change | None:
    codes = [reason.code for reason in why_not(each, spec, CONTEXT)]
    return change_for(codes[0], each, spec, CONTEXT) if len(codes) == 1 and codes[0] in FIXABLE else None


def _worth(each: Offer, spec: Spec) -> tuple[int, int, Fraction]:
    """Confirmed first unless any stock does, then fresh; then by what is compared, per GPU where that is the price."""
    nanos, machine = CONTEXT.exact(each, spec.currency), each.machine
    value: int | Fraction | None = None if nanos is None else nanos / (machine.gpu_count or Fraction(1))
    if spec.sort is Sort.JOB_COST and spec.job is not None:
        value = JobCosts(spec.job, spec.currency, RATES).nanos(each)
    elif spec.sort is Sort.PRICE_PER_VRAM and nanos is not None:
        value = nanos / (total_vram_gib(machine) or Fraction(1))
    known = 0 if value is not None else 2 if nanos is None else 1
    return _class(each, spec), known, Fraction(value if value is not None else nanos or 0)


def _class(each: Offer, spec: Spec) -> int:
    if spec.stock is not StockWish.ANY and standing(each, spec, CONTEXT) is Standing.CONFIRMED:
        return 0
    return 2 if is_stale(each, spec, CONTEXT) else 1


@pytest.mark.parametrize(
    ("only", "asked", "told"),
    [
        (offer(count=8, price="9"), {"gpu": "a100-80g", "count": "2"}, "count=8"),
        (offer(gpu="l4", price="9"), {"min_vram": "40"}, "min_vram=24"),
        (offer(vcpus=6), {"min_vcpus_per_gpu": "12"}, "min_vcpus_per_gpu=6"),
        (offer(price="3.20001", currency="USD"), {"max_price": "3"}, "max_price=3.2001"),
        (offer(price="3.2", count=2), {"max_price_per_gpu": "1.5", "count": "2"}, "max_price_per_gpu=1.6"),
        (offer(purchase="spot"), {}, "purchase=spot"),
        (offer(), {"spot": "true"}, "spot"),
        (offer(), {"purchase": "spot"}, "purchase=on_demand"),
        (offer(purchase="spot"), {"spot": "false"}, "spot=true"),
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
    assert fix.match.offer == only


@pytest.mark.parametrize(
    "only",
    [
        offer(level="out"),
        offer(price=None),
        offer(currency="ISK"),
        offer(level="unknown", detail="restricted: quota"),
        offer(count=None),
        offer(count=8, level="out"),
        offer(count=Fraction(1, 4)),
    ],
    ids=["out of stock", "no price", "no rate", "restricted", "count unknown", "two reasons", "a slice for a whole"],
)
def test_what_no_question_can_change_is_no_fix(only: Offer) -> None:
    assert Here(offers=[only]).cheapest(gpu="a100-80g").fix is None


@pytest.mark.parametrize(
    ("only", "asked", "defaults"),
    [
        (offer(), {"country": "!CN"}, {}),
        (offer("aws"), {"provider": "!aws"}, {}),
        (offer("runpod", "US", country="US", hosting="community"), {"compliance": "soc2"}, {}),
        (offer(nvlink=False), {}, {"nvlink": "true"}),
        (offer(purchase="month"), {"spot": "true"}, {}),
    ],
    ids=["an excluded country", "an excluded provider", "no certified host", "a default", "a month for spot"],
)
def test_what_the_question_means_or_does_not_say_is_no_fix(
    only: Offer, asked: dict[str, str], defaults: dict[str, str]
) -> None:
    here = Here(offers=[only, offer("aws", "us-east-1", country="US", gpu="t4")], defaults=defaults)
    assert here.cheapest(gpu="a100-80g", **asked).fix is None


def test_of_two_changes_the_confirmed_answer_is_told_before_a_cheaper_doubtful_one() -> None:
    listed = offer(price="4.1", evidence="listed", level="unknown")
    fix = Here(offers=[listed, offer(price="4.2", instance_type="M2")]).cheapest(gpu="a100-80g", max_price="4").fix
    assert str(fix and fix.change) == "with max_price=4.2"


def test_where_a_jobs_cost_is_compared_the_change_with_the_cheapest_job_is_told() -> None:
    month = offer("aws", "us-east-1", country="US", price="2", purchase="month")
    spot = offer("aws", "us-east-1", country="US", price="3", purchase="spot", instance_type="M2")
    fix = Here(offers=[month, spot]).cheapest(gpu="a100-80g", hours="10", sort="job_cost").fix
    assert str(fix and fix.change) == "with purchase=spot"


def test_a_count_that_was_said_is_not_told_as_a_default() -> None:
    here = Here(offers=[offer(price="2.1"), offer(count=8, price="1.9", instance_type="M8")])
    fix = here.cheapest(gpu="a100-80g", count="1", max_price="2").fix
    assert str(fix and fix.change) == "with count=8"
    assert "unless said" not in here.said(gpu="a100-80g", count="1", max_price="2")


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
    assert (str(fix.change), fix.match.offer) == ("with purchase=spot", spot)


def test_the_sentence_names_the_nearest_miss_and_the_cheapest_change() -> None:
    sold_out = offer(price="1", level="out", instance_type="NEAR")
    spot = offer(price="2", purchase="spot", instance_type="SPOT", level="unknown", evidence="listed")
    dear = offer(price="5", region="ap-beijing", instance_type="DEAR", level="unknown", evidence="listed")
    said = Here(offers=[sold_out, spot, dear]).said(gpu="a100-80g", max_price="4", count="1..")
    assert said == (
        "a100-80g is out of stock at ap-guangzhou; nearest: 1 x NVIDIA A100 80GB SXM4, NEAR at tencent ap-guangzhou, "
        "1 USD per hour (out of stock); with purchase=spot there is 1 x NVIDIA A100 80GB SXM4, SPOT at tencent "
        "ap-guangzhou, 2 USD per hour, unconfirmed: stock unknown (listed 40 s ago)."
    )
