"""`/recommend`: a model's size and a task as the spec it needs, with the arithmetic, and the answer to it."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from api.answers import Asked, cheapest_shape, match_shape
from api.openapi import RECOMMEND, answers
from api.recommend_shapes import (
    GpusOption,
    JobShape,
    NeedShape,
    QueryShape,
    RecommendShape,
    TermShape,
)
from api.serving import Serving, asked_of, json_response
from catalog.spec import number_text
from selector import sizing_notes, sizing_words
from selector.context import Context
from selector.ranking import Match
from selector.sizing import Term, Workload
from selector.sizing_asked import understand_workload
from selector.sizing_options import Option, Recommendation, options, recommend


def router(serving: Serving) -> APIRouter:
    """The route."""
    routes = APIRouter(tags=["questions"])

    @routes.get("/recommend", openapi_extra=RECOMMEND, responses=answers(RecommendShape))
    async def recommended(request: Request) -> Response:
        """The memory that a model needs for a task, term by term; the machine that follows; and the cheapest one."""
        return await run_in_threadpool(_recommend, serving, request)

    return routes


def _recommend(serving: Serving, request: Request) -> Response:
    params, view = asked_of(request), serving.board.view
    asked = options(understand_workload(params), params, view.world, serving.config.defaults)
    context = serving.board.context(serving.now())
    found = recommend(serving.board.index, asked, context)
    cheapest = cheapest_shape(found.ranking, Asked(found.chosen.spec, context), view.providers)
    workload = found.chosen.sizing.workload
    return json_response(
        RecommendShape(
            message=_message(found),
            job=_job(workload),
            terms=list(map(_term, found.chosen.sizing.terms)),
            need=_need(found),
            assumptions=[*sizing_words.assumptions(workload), *sizing_notes.notes(found)],
            options=_options(found, context),
            query=_query(found.chosen.params),
            cheapest=cheapest,
        )
    )


def _message(found: Recommendation) -> str:
    chosen = found.chosen
    told = [sizing_words.message(chosen.sizing, chosen.gpus_text, linked=chosen.spec.nvlink is True)]
    if missing := sizing_notes.unlinked_reason(chosen):
        told.append(f"Without NVLink, which is slower: {missing}.")
    if found.cheaper is not None:
        told.append(sizing_notes.cheaper_text(*found.cheaper))
    told += sizing_notes.answer_lacks(found)
    return " ".join(told)


def _job(workload: Workload) -> JobShape:
    share = workload.adapter_share
    return JobShape(
        params=workload.parameters,
        task=workload.task.value,
        precision=workload.precision.value,
        context=workload.context_tokens,
        batch=workload.sequences,
        adapter_percent=None if share is None else number_text(share * 100),
        margin_percent=number_text(workload.margin * 100),
        layers=workload.layers,
        hidden=workload.hidden,
        kv_width=None if workload.task.trains else workload.kv_width,
        estimated=sorted(workload.estimated),
    )


def _term(term: Term) -> TermShape:
    return TermShape(term.name, term.formula, _gib(term.memory_gib), term.source)


def _need(found: Recommendation) -> NeedShape:
    chosen, sizing, workload = found.chosen, found.chosen.sizing, found.chosen.sizing.workload
    missing = sizing_notes.unlinked_reason(chosen)
    fits, why = sizing_words.spot(workload)
    return NeedShape(
        total_gib=_gib(sizing.total_gib),
        gpus=chosen.gpus_text,
        min_vram_gib=_gib(sizing.vram_gib),
        undivided_gib=_gib(sizing.undivided_gib),
        nvlink=chosen.spec.nvlink is True,
        nvlink_reason=sizing_words.nvlink_reason(workload, sizing.gpus, said=chosen.nvlink_said, missing=missing),
        spot_fits=fits,
        spot_reason=why,
        gpu_reason=sizing_words.gpu_reason(workload, len(chosen.left_out)) + sizing_notes.lacks_text(found),
    )


def _options(found: Recommendation, context: Context) -> list[GpusOption]:
    return [
        _option(option, match, Asked(option.spec, context), chosen=option is found.chosen)
        for option, match in zip(found.options, found.bests, strict=True)
    ]


def _option(option: Option, match: Match | None, asked: Asked, *, chosen: bool) -> GpusOption:
    return GpusOption(
        gpus=option.gpus_text,
        min_vram_gib=_gib(option.sizing.vram_gib),
        nvlink=option.spec.nvlink is True,
        price_per_hour=None if match is None else match_shape(match, asked).price_per_hour,
        confirmed=None if match is None else match.confirmed,
        chosen=chosen,
    )


def _query(params: Mapping[str, Sequence[str]]) -> QueryShape:
    named = {name: ",".join(texts) for name, texts in params.items()}
    return QueryShape(named, f"/cheapest?{urlencode(named, safe='!,:')}")


def _gib(gib: Fraction) -> str:
    return sizing_words.gib_text(gib)
