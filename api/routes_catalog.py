"""What there is: accelerators, regions, providers, past polls and reported launches."""

from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta
from fractions import Fraction
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path, Request, Response
from starlette.concurrency import run_in_threadpool

from api.answers import Asked, age_s, figure, match_shape, time_or_none, time_text
from api.openapi import LIMITED, answers
from api.problems import Problem
from api.serving import Serving, asked_of, json_response, only_parameters
from api.shapes import (
    FeedShape,
    GpuShape,
    GpusShape,
    NoteShape,
    NotesShape,
    OfferShape,
    ProviderShape,
    ProvidersShape,
    RegionShape,
    RegionsShape,
    SyncShape,
    SyncsShape,
)
from catalog.accelerators import Accelerator, accelerators
from catalog.offers import Place
from catalog.places import known_regions
from catalog.spec import MIB_PER_GIB, RegionKey, Sort, number_text
from selector.question import understand
from selector.rank import rank
from selector.values import BadQuestion, alike, whole
from store import status
from store.status import FeedStatus, NoteSeen, ProviderStatus, Sync

_DEFAULT_SYNCS, _MOST_SYNCS = 100, 1000


def router(serving: Serving) -> APIRouter:
    """The routes."""
    routes = APIRouter(tags=["what there is"])

    @routes.get("/gpus", responses=answers(GpusShape))
    async def gpus(request: Request) -> Response:
        """Every accelerator, with how many offers and the cheapest per GPU now, by the defaults of `/cheapest`."""
        only_parameters(request)
        return json_response(await run_in_threadpool(_gpus, serving))

    @routes.get("/gpus/{id}", responses=answers(GpuShape, HTTPStatus.NOT_FOUND))
    async def gpu(request: Request, gpu_id: Annotated[str, Path(alias="id", examples=["h100-sxm5-80g"])]) -> Response:
        """One accelerator by its id."""
        only_parameters(request)
        row = accelerators().get(gpu_id)
        if row is None:
            near = alike(gpu_id, accelerators())
            raise Problem(
                HTTPStatus.NOT_FOUND, f"No accelerator has the id {gpu_id[:64]}. /gpus lists all.", "id", near
            )
        return json_response(await run_in_threadpool(_gpu, row, serving))

    @routes.get("/regions", responses=answers(RegionsShape))
    async def regions(request: Request) -> Response:
        """Every region that is polled or known, with its zones and how many offers it has."""
        only_parameters(request)
        return json_response(await run_in_threadpool(_regions, serving))

    @routes.get("/providers", responses=answers(ProvidersShape))
    async def providers(request: Request) -> Response:
        """Every provider and its feeds: how they do, and what to set where one is off."""
        only_parameters(request)
        now = serving.now()
        return json_response(ProvidersShape([_provider(one, now) for one in serving.board.view.providers]))

    @routes.get("/notes", openapi_extra=LIMITED, responses=answers(NotesShape))
    async def notes(request: Request) -> Response:
        """What the last answers held that was left out or not understood, most frequent first."""
        limit = limit_of(request)
        found = await run_in_threadpool(status.notes, serving.engine, limit)
        return json_response(NotesShape([_note(one) for one in found]))

    @routes.get("/syncs", openapi_extra=LIMITED, responses=answers(SyncsShape))
    async def syncs(request: Request) -> Response:
        """Past polls, newest first."""
        limit = limit_of(request)
        past = await run_in_threadpool(status.syncs, serving.engine, limit)
        return json_response(SyncsShape([_sync(one) for one in past]))

    return routes


def limit_of(request: Request) -> int:
    """The parameter `limit` of a list of past things, the only one that it has."""
    only_parameters(request, ["limit"])
    values = asked_of(request).get("limit", [str(_DEFAULT_SYNCS)])
    if len(values) > 1:
        raise BadQuestion("limit", "limit: one value, please.")
    return whole("limit", values[0], 1, _MOST_SYNCS)


def _gpus(serving: Serving) -> GpusShape:
    return GpusShape([_gpu(row, serving) for row in accelerators().values()])


def _gpu(row: Accelerator, serving: Serving) -> GpuShape:
    offers = sum(1 for _ in serving.board.index.candidates(frozenset({row.id})))
    return GpuShape(
        id=row.id,
        group=row.group,
        family=row.family,
        vendor=row.vendor,
        architecture=row.architecture,
        name=row.name,
        kind=row.kind,
        form=row.form,
        unstated=sorted(row.unstated),
        vram_gib=None if row.vram_mib is None else figure(Fraction(row.vram_mib, MIB_PER_GIB)),
        bandwidth_gbs=row.bandwidth_gbs,
        fp16_dense_tflops=None if row.fp16_dense_tflops is None else number_text(Fraction(row.fp16_dense_tflops)),
        fp8_dense_tflops=None if row.fp8_dense_tflops is None else number_text(Fraction(row.fp8_dense_tflops)),
        nvlink=row.nvlink,
        mig_max=row.mig_max,
        export_sku=row.export_sku,
        aliases=list(row.aliases),
        offers=offers,
        cheapest=_cheapest(row, serving) if offers else None,
    )


def _cheapest(row: Accelerator, serving: Serving) -> OfferShape | None:
    """The best offer per GPU by the operator's own defaults, in machines with any number of them."""
    usual = understand({}, serving.board.view.world, serving.config.defaults, endpoint="cheapest")
    spec = replace(usual, gpus=frozenset({row.id}), counts=(), sort=Sort.PRICE_PER_GPU, limit=1, explain=False)
    asked = Asked(spec, serving.board.context(serving.now()))
    best = rank(serving.board.index, spec, asked.context, counts=False).best
    return None if best is None else match_shape(best, asked)


def _regions(serving: Serving) -> RegionsShape:
    """Those with offers as they are shown there, the others as the table of places knows them."""
    index, world = serving.board.index, serving.board.view.world
    offers = Counter[RegionKey]()
    places: dict[RegionKey, Place] = {}
    for _, offer in index.candidates(None):
        key = (offer.place.provider, offer.place.region)
        places[key] = offer.place
        offers[key] += 1
    zones: dict[RegionKey, set[str]] = {}
    for provider, region, zone, zone_id in world.zones:
        zones.setdefault((provider, region), set()).add(zone or zone_id or "")
    return RegionsShape(
        [
            _region(places.get(key) or _known(key), sorted(zones.get(key, ())), offers[key])
            for key in sorted(world.all_regions())
        ]
    )


def _known(key: RegionKey) -> Place:
    provider, region = key
    known = known_regions().get(key)
    if known is None:
        return Place(provider=provider, region=region)
    return Place(
        provider=provider,
        region=region,
        region_name=known.name,
        country=known.country,
        mainland_china=known.mainland_china,
    )


def _region(place: Place, zones: list[str], offers: int) -> RegionShape:
    return RegionShape(
        provider=place.provider,
        region=place.region,
        region_name=place.region_name,
        country=place.country,
        mainland_china=place.mainland_china,
        zones=zones,
        offers=offers,
    )


def _provider(provider: ProviderStatus, now: datetime) -> ProviderShape:
    feeds = [_feed(feed, now) for feed in provider.feeds]
    return ProviderShape(provider.name, provider.account, [word for word in provider.evidence if word], feeds)


def _feed(feed: FeedStatus, now: datetime) -> FeedShape:
    return FeedShape(
        feed=feed.feed,
        status=feed.status,
        reason=feed.reason,
        last_success=time_or_none(feed.last_success),
        age_s=None if feed.last_success is None else age_s(feed.last_success, now),
        interval_s=None if feed.interval is None else round(feed.interval / timedelta(seconds=1)),
        offers=feed.offers,
        failing=list(feed.failing),
        notes=dict(feed.notes),
    )


def _note(note: NoteSeen) -> NoteShape:
    return NoteShape(
        provider=note.provider,
        feed=note.feed,
        place=note.place,
        kind=note.kind,
        value=note.value,
        count=note.count,
        first_at=time_text(note.first_at),
    )


def _sync(poll: Sync) -> SyncShape:
    return SyncShape(
        provider=poll.provider,
        feed=poll.feed,
        place=poll.place,
        part=poll.part,
        status=poll.status,
        facts=poll.facts,
        notes=poll.notes,
        seconds=round(poll.seconds, 3),
        error=poll.error,
        started_at=time_text(poll.started_at),
    )
