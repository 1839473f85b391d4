"""A question's parameters understood as a spec, or refused by name."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from catalog.accelerators import UnknownAccelerator, accelerators, resolve_question
from catalog.compliance import all_tags
from catalog.spec import ONE_GPU, Accounts, CountRange, Job, Nearness, RegionKey, Sort, Spec, StockWish
from catalog.words import Hosting, Purchase
from selector import values
from selector.asked import Asked, Endpoint, contradiction, known_name
from selector.contradictions import refuse_contradictions
from selector.nearness import others_nearest_first
from selector.ranking import Change
from selector.values import BadQuestion, alike
from selector.where import AUTO, World, configured_fallback, regions_known, regions_named, zones_named

__all__ = ["BadQuestion", "Endpoint", "World", "asking", "understand"]

_MOST: Mapping[Endpoint, int] = {"cheapest": 100, "offers": 10_000}
_MOST_OFFSET = 100_000_000
_GLOB_MARKS = frozenset("*?[")
_OF_CNY = frozenset({"rmb", "cnh", "yuan", "renminbi", "¥", "元", "人民币"})
"""What people write for the currency whose ISO 4217 code is CNY."""
_Tier = tuple[frozenset[RegionKey], Nearness | None]
"""Regions, and of one that `auto` found how near it is."""
_COUNTED_GPU = re.compile(r"\s*(\d+)\s*[x×*]\s*(.+)", re.IGNORECASE)


def understand(
    params: Mapping[str, Sequence[str]], world: World, defaults: Mapping[str, str], *, endpoint: Endpoint
) -> Spec:
    """The spec that these parameters mean here. Raises `BadQuestion` for whatever is not known or contradicts itself.

    `defaults` are the operator's own, used where the question is silent; on `offers` never for purchase, count,
    accounts, hosting, stock, fallback, limit and offset.
    """
    asked = Asked.of(params, defaults, endpoint)
    placed = _with_places(_machine(asked, world, endpoint), asked, world, endpoint)
    refuse_contradictions(placed, asked, world)
    _refuse_another_currency(asked, defaults)
    return _with_terms(placed, asked, world, endpoint)


def asking(
    params: Mapping[str, Sequence[str]], world: World, defaults: Mapping[str, str]
) -> Callable[[Change], Spec | None]:
    """What a question for the cheapest means with one change; None for a change that it cannot be asked with."""

    def changed(change: Change) -> Spec | None:
        said: dict[str, Sequence[str]] = {name: texts for name, texts in params.items() if name != change.parameter}
        if change.value is not None:
            said[change.parameter] = [change.value]
        try:
            return understand(said, world, defaults, endpoint="cheapest")
        except BadQuestion:
            return None

    return changed


def _refuse_another_currency(asked: Asked, defaults: Mapping[str, str]) -> None:
    """A price limit that is a default is in the default currency: in another one it would be another limit."""
    limits = [name for name in ("max_price", "max_price_per_gpu") if name in asked.items and name not in asked.said]
    usual = next((text for name, text in defaults.items() if name.casefold() == "currency" and text.strip()), "USD")
    currency = "".join(asked.items.get("currency", ())) or usual
    if limits and currency.strip().casefold() != usual.strip().casefold():
        said = ", ".join(f"{name}={','.join(asked.items[name])}" for name in limits)
        raise BadQuestion(
            "currency", f"currency={currency}: {said} is a default in {usual.strip()}: say the limit too."
        )


def _machine(asked: Asked, world: World, endpoint: Endpoint) -> Spec:
    """What is asked of the machine."""
    return Spec(
        gpus=_gpus(asked),
        gpu_names=asked.included("gpu"),
        instance_types=_instance_types(asked.included("instance_type"), world),
        not_instance_types=_instance_types(asked.excluded("instance_type"), world),
        counts=_counts(asked, endpoint),
        min_vram_mib=asked.gib("min_vram"),
        min_total_vram_mib=asked.gib("min_total_vram"),
        min_tflops=asked.one("min_tflops", values.number),
        min_bandwidth_gbs=asked.one("min_bandwidth", values.number),
        nvlink=asked.one("nvlink", values.truth),
        rdma=asked.one("rdma", values.truth),
        bare_metal=asked.one("bare_metal", values.truth),
        vendors=asked.subset("vendor", {row.vendor for row in accelerators().values()}),
        min_vcpus=asked.one("min_vcpus", values.number),
        min_vcpus_per_gpu=asked.one("min_vcpus_per_gpu", values.number),
        min_memory_mib=asked.gib("min_memory"),
        min_memory_mib_per_vcpu=asked.gib("min_memory_per_vcpu"),
        min_memory_per_vram=asked.one("min_memory_per_vram", values.number),
        hosting=_hosting(asked, endpoint),
    )


def _with_places(spec: Spec, asked: Asked, world: World, endpoint: Endpoint) -> Spec:
    """Where it may be."""
    regions, not_regions = asked.sets("region", lambda text: regions_named("region", text, world))
    zones, not_zones = asked.sets("zone", lambda text: zones_named("zone", text, world))
    if regions is not None and zones is not None:
        zones = frozenset(zone for zone in zones if zone[:2] in regions) or contradiction("zone", asked, "region")
    countries, not_countries = asked.sets("country", lambda text: frozenset({_country(text, world)}))
    tags, not_tags = asked.sets("compliance", lambda text: frozenset({known_name("compliance", text, all_tags())}))
    placed = replace(
        spec,
        providers=asked.subset("provider", world.providers),
        provider_names=frozenset(map(str.casefold, asked.included("provider"))),
        countries=countries,
        not_countries=not_countries,
        mainland_china=asked.one("mainland_china", values.truth),
        compliance=tags,
        not_compliance=not_tags,
        regions=regions,
        not_regions=not_regions,
        zones=zones,
        not_zones=not_zones,
        accounts=_accounts(asked, world, endpoint),
    )
    return _with_tiers(placed, _fallback(placed, asked, world, endpoint))


def _with_terms(spec: Spec, asked: Asked, world: World, endpoint: Endpoint) -> Spec:
    """On which terms, and how it is answered."""
    return replace(
        spec,
        purchases=_purchases(asked, endpoint),
        max_price_nanos=asked.one("max_price", values.amount_nanos),
        max_price_per_gpu_nanos=asked.one("max_price_per_gpu", values.amount_nanos),
        currency=asked.one("currency", lambda _, text: _currency(text, world)) or "USD",
        stock=_stock(asked, endpoint),
        max_age=asked.one("max_age", values.duration),
        sort=_sort(asked),
        job=_job(asked),
        limit=asked.one("limit", lambda name, text: values.whole(name, text, 1, _MOST[endpoint])) or 5,
        offset=asked.one("offset", lambda name, text: values.whole(name, text, 0, _MOST_OFFSET)) or 0,
        explain=asked.one("explain", values.truth) or False,
        said=asked.said,
        defaulted=asked.defaulted,
        excluding=asked.excluding(),
    )


def _gpus(asked: Asked) -> frozenset[str] | None:
    if "gpu" not in asked.items:
        return None
    included, out = asked.sets("gpu", _models)
    return (frozenset(accelerators()) if included is None else included) - out or contradiction("gpu", asked)


def _models(text: str) -> frozenset[str]:
    if counted := _COUNTED_GPU.fullmatch(text):
        raise BadQuestion("gpu", f"gpu={text}: the count is a parameter of its own.", [counted[2].casefold()])
    try:
        return resolve_question(text)
    except UnknownAccelerator as unknown:
        hint = "" if unknown.did_you_mean else " `GET /gpus` lists all."
        raise BadQuestion("gpu", f"gpu={text} names no single accelerator.{hint}", unknown.did_you_mean) from None


def _instance_types(texts: Iterable[str], world: World) -> tuple[str, ...]:
    """The names and globs, case folded. A plain name that no machine has is refused, once all sources were read."""
    return tuple(_instance_type(text, world) for text in texts)


def _instance_type(text: str, world: World) -> str:
    name = text.casefold()
    if not _GLOB_MARKS & set(name) and world.machines and not world.unread and name not in world.machines:
        near = [world.machines[folded] for folded in alike(name, world.machines)]
        raise BadQuestion("instance_type", f"instance_type={text}: no machine here has this name.", near)
    return name


def _counts(asked: Asked, endpoint: Endpoint) -> tuple[CountRange, ...]:
    if "count" not in asked.items:
        return (ONE_GPU,) if endpoint == "cheapest" else ()
    items = asked.items["count"]
    return tuple(dict.fromkeys(values.count_range("count", item) for item in items))


def _purchases(asked: Asked, endpoint: Endpoint) -> frozenset[Purchase] | None:
    named = _members(asked, "purchase", Purchase)
    spot = asked.one("spot", values.truth)
    default = frozenset({Purchase.ON_DEMAND}) if endpoint == "cheapest" else None
    if spot is None:
        return default if named is None else named
    if spot:
        return _agreeing(asked, named, frozenset({Purchase.SPOT}))
    return _agreeing(asked, named, default or frozenset(Purchase) - {Purchase.SPOT})


def _agreeing(asked: Asked, named: frozenset[Purchase] | None, meant: frozenset[Purchase]) -> frozenset[Purchase]:
    """What `spot` means, unless `purchase` says otherwise: `spot=false` allows any purchase that is not spot."""
    if named is None or named == meant:
        return meant
    if Purchase.SPOT not in meant and Purchase.SPOT not in named:
        return named
    return contradiction("purchase", asked, "spot")


def _members(asked: Asked, name: str, words: type[Purchase]) -> frozenset[Purchase] | None:
    if name not in asked.items:
        return None
    included, out = asked.sets(name, lambda text: frozenset({values.member(name, text, words)}))
    return (frozenset(words) if included is None else included) - out or contradiction(name, asked)


def _hosting(asked: Asked, endpoint: Endpoint) -> frozenset[Hosting]:
    """Certifications are of the providers' own data centres: with `compliance`, no private host is meant."""
    hosting = _hosting_asked(asked, endpoint)
    if "compliance" not in asked.items:
        return hosting
    return hosting & {Hosting.DATACENTER} or contradiction("compliance", asked, "hosting")


def _hosting_asked(asked: Asked, endpoint: Endpoint) -> frozenset[Hosting]:
    if "hosting" not in asked.items:
        return frozenset({Hosting.DATACENTER} if endpoint == "cheapest" else Hosting)
    included, out = asked.sets("hosting", _hosts)
    return (frozenset(Hosting) if included is None else included) - out or contradiction("hosting", asked)


def _hosts(text: str) -> frozenset[Hosting]:
    if text.casefold() == "any":
        return frozenset(Hosting)
    return frozenset({values.member("hosting", text, Hosting, also=("any",))})


def _country(text: str, world: World) -> str:
    code = text.upper()
    if code not in world.all_countries():
        message = f"country={text}: write a country of two letters (ISO 3166) that has a region, such as DE."
        raise BadQuestion("country", message, [near.upper() for near in alike(text, _folded(world.all_countries()))])
    return code


def _folded(names: Iterable[str]) -> set[str]:
    return {name.casefold() for name in names}


def _currency(text: str, world: World) -> str:
    code = text.upper()
    if code == "USD" or code in world.currencies:
        return code
    usual = ("USD", "EUR", "CNY") if text.casefold() not in _OF_CNY else ("CNY",)
    near = [known for known in usual if known == "USD" or known in world.currencies]
    raise BadQuestion("currency", f"currency={text}: no exchange rate is known for it.", near)


def _with_tiers(spec: Spec, tiers: Iterable[_Tier]) -> Spec:
    """The tiers without what is excluded, primary or in an earlier tier. Of a primary zone, its region is neither."""
    found, seen = list(tiers), set(spec.not_regions)
    if spec.primary_regions is None:
        return spec
    if spec.zones is None:
        seen |= spec.primary_regions
    kept = []
    for regions, near in found:
        if regions - seen:
            kept.append((regions - seen, near))
        seen |= regions
    return replace(
        spec,
        fallback=tuple(regions for regions, _ in kept),
        nearness=tuple(near for _, near in kept if near is not None),
    )


def _fallback(spec: Spec, asked: Asked, world: World, endpoint: Endpoint) -> Iterator[_Tier]:
    """What is said, else configured for the primary regions, else the default; on `offers` what is said alone."""
    said, configured = "fallback" in asked.said, configured_fallback(spec.primary_regions or (), world)
    if configured and not said and endpoint == "cheapest":
        for text, primary in configured.items():
            yield from _configured(text, primary, spec, world)
        return
    items = asked.items.get("fallback", ())
    for item in () if items == ("none",) else items:
        yield from _named(item, spec, world, said=said)


def _configured(text: str, primary: frozenset[RegionKey], spec: Spec, world: World) -> Iterator[_Tier]:
    """A region that is not known now is left out: the question did not name it, the operator is told at the start."""
    if text.casefold() == AUTO:
        yield from _auto(primary, spec, world)
    else:
        yield regions_known("fallback", text, world), None


def _named(text: str, spec: Spec, world: World, *, said: bool) -> Iterator[_Tier]:
    if text.casefold() == AUTO:
        if said and spec.primary_regions is None:
            hint = "name a primary region or zone, such as region=ap-guangzhou: the others are sought near it."
            raise BadQuestion("fallback", f"fallback={text}: {hint}")
        yield from _auto(spec.primary_regions or (), spec, world)  # a default has no meaning without one
        return
    if text.casefold() == "none" or text.startswith("!"):
        raise BadQuestion("fallback", f"fallback: {text} cannot stand in a list of regions.")
    regions = regions_named("fallback", text, world)
    if said and regions <= spec.not_regions:
        raise BadQuestion("fallback", f"fallback={text} and region=!… contradict: this region is excluded.")
    yield regions, None


def _auto(primary: Iterable[RegionKey], spec: Spec, world: World) -> Iterator[_Tier]:
    return ((frozenset({near.region}), near) for near in others_nearest_first(primary, spec, world))


def _accounts(asked: Asked, world: World, endpoint: Endpoint) -> Accounts:
    stated = asked.one("accounts", lambda name, text: values.member(name, text, Accounts))
    if stated is not None:
        return stated
    return Accounts.MINE if world.accounts and endpoint == "cheapest" else Accounts.ALL


def _stock(asked: Asked, endpoint: Endpoint) -> StockWish:
    if endpoint == "cheapest" and asked.items.get("stock") == ("all",):
        raise BadQuestion("stock", "stock=all lists sold-out machines too: ask /offers for that.", ["any", "prefer"])
    wishes = [wish for wish in StockWish if endpoint == "offers" or wish is not StockWish.ALL]
    stated = asked.one("stock", lambda name, text: values.member(name, text, wishes))
    return stated or (StockWish.PREFER if endpoint == "cheapest" else StockWish.ALL)


def _sort(asked: Asked) -> Sort:
    sort = asked.one("sort", lambda name, text: values.member(name, text, Sort)) or Sort.PRICE
    if sort is Sort.JOB_COST and "hours" not in asked.items:
        raise BadQuestion("sort", "sort=job_cost: say hours too, such as hours=48: a job's cost depends on them.")
    return sort


def _job(asked: Asked) -> Job | None:
    hours, egress_gb = asked.one("hours", values.number), asked.one("egress_gb", values.number_or_zero)
    if hours is None and egress_gb is not None:
        raise BadQuestion("egress_gb", "egress_gb: say hours too, such as hours=48: it is a part of a job's cost.")
    return None if hours is None else Job(hours, egress_gb or Fraction(0))
