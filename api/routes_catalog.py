"""What there is: accelerators and regions."""

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path, Request, Response
from starlette.concurrency import run_in_threadpool

from api.answers import Asked, figure, match_shape
from api.openapi import answers
from api.problems import Problem
from api.serving import Serving, json_response, only_parameters
from api.shapes import GpuShape, GpusShape, OfferShape, RegionShape, RegionsShape
from catalog.accelerators import Accelerator, UnknownAccelerator, accelerators, resolve_question
from catalog.offers import Place
from catalog.places import known_region
from catalog.spec import RegionKey, Sort, number_text
from catalog.units import MIB_PER_GIB
from selector.question import understand
from selector.rank import best
from selector.values import alike


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
        row = _named(gpu_id)
        return json_response(await run_in_threadpool(lambda: _gpu(row, serving, _usual(serving))))

    @routes.get("/regions", responses=answers(RegionsShape))
    async def regions(request: Request) -> Response:
        """Every region that is polled or known, with its zones and how many offers it has."""
        only_parameters(request)
        return json_response(await run_in_threadpool(_regions, serving))

    return routes


def _named(gpu_id: str) -> Accelerator:
    row = accelerators().get(gpu_id)
    if row is None:
        said = f"No accelerator has the id {gpu_id[:64]}. /gpus lists all."
        raise Problem(HTTPStatus.NOT_FOUND, said, "id", _ids_of(gpu_id))
    return row


def _ids_of(name: str) -> list[str]:
    """The ids that a group, a family or another name stands for, else those that look like it."""
    try:
        return sorted(resolve_question(name))
    except UnknownAccelerator:
        return alike(name, accelerators())


def _gpus(serving: Serving) -> GpusShape:
    usual = _usual(serving)
    return GpusShape([_gpu(row, serving, usual) for row in accelerators().values()])


def _usual(serving: Serving) -> Asked:
    """What is asked of each accelerator: by the operator's own defaults, in machines with any number of them."""
    spec = understand({}, serving.board.view.world, serving.config.defaults, endpoint="cheapest")
    spec = replace(spec, counts=(), sort=Sort.PRICE_PER_GPU)
    return Asked(spec, serving.board.context(serving.now()))


def _gpu(row: Accelerator, serving: Serving, usual: Asked) -> GpuShape:
    offers = serving.board.index.count(row.id)
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
        cheapest=_cheapest(row, serving, usual) if offers else None,
    )


def _cheapest(row: Accelerator, serving: Serving, usual: Asked) -> OfferShape | None:
    """The best offer per GPU."""
    asked = Asked(replace(usual.spec, gpus=frozenset({row.id})), usual.context)
    found = best(serving.board.index, asked.spec, asked.context)
    return None if found is None else match_shape(found, asked)


def _regions(serving: Serving) -> RegionsShape:
    """Those with offers as they are shown there, the others as the table of places knows them."""
    index, world = serving.board.index, serving.board.view.world
    offers = Counter[RegionKey]()
    places: dict[RegionKey, Place] = {}
    for key, place, count in index.shelves():
        places[key], offers[key] = place, count
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
    known = known_region(*key)
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
