"""The parameters of a recommendation: those of the model and its task, read, and those of `/cheapest`, passed on."""

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from types import MappingProxyType

from catalog.parameters import PARAMETERS, Parameter
from selector.sizing import (
    ASPECT,
    TRAINED_IN,
    USUAL_KV_WIDTH,
    Precision,
    Task,
    Workload,
    estimated_hidden,
    estimated_layers,
)
from selector.values import BadQuestion, alike, has_control, member, number, whole

WORKLOAD_PARAMETERS: Mapping[str, Parameter] = MappingProxyType(
    {
        "params": Parameter("parameters of the model, all of them", ("8b", "8e9", "350m")),
        "task": Parameter("what it is to do", tuple(Task)),
        "precision": Parameter("of the weights; of training, what it computes in; default bf16", tuple(Precision)),
        "context": Parameter("tokens of a sequence; default 8192, of fine-tuning 2048", ("8192", "131072")),
        "batch": Parameter("sequences at once, of training on each GPU; default 1", ("1", "16")),
        "adapter_percent": Parameter("share that lora and qlora train; default 0.5", ("0.5", "2")),
        "margin_percent": Parameter("memory to spare, over the sum of the rest; default 20", ("20", "10")),
        "layers": Parameter("layers of the model; else an estimate", ("32", "80")),
        "hidden": Parameter("its hidden size; else an estimate", ("4096", "8192")),
        "kv_width": Parameter("its heads of keys times their width, of inference; else an estimate", ("1024",)),
    }
)
"""Those that say what the model is and what it is to do; each has one value."""
RECOMMEND_PARAMETERS: Mapping[str, Parameter] = MappingProxyType({**WORKLOAD_PARAMETERS, **PARAMETERS})
"""Those of a recommendation, and those of `/cheapest`."""
NEEDED = ("params", "task")

_FEWEST, _MOST = 10**6, 10**14
_MOST_BILLIONS = 10_000
"""A number up to this that is too small is likely one of billions, as the names of models have it."""
_WRITTEN = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)(?:e(\d{1,2})|([kmbt]))?", re.ASCII | re.IGNORECASE)
_SUFFIXES = {"k": 3, "m": 6, "b": 9, "t": 12}
_FINE_TUNED, _OTHERWISE = 2048, 8192
"""Tokens of a sequence: torchtune's measurements are at 2048; Llama 3 was trained at 8192."""
_MOST_TOKENS, _MOST_SEQUENCES = 10**8, 10**6
_MOST_LAYERS, _MOST_WIDTH = 10**4, 10**6
_ADAPTER_PERCENT = Fraction(1, 2)
"""Rank 16 on all linear layers is 0.52 % of Llama 3.1 8B and 0.30 % of 70B; QLoRA calls 0.2 % common."""
_MARGIN_PERCENT = 20

Params = Mapping[str, Sequence[str]]


def understand_workload(params: Params) -> Workload:
    """The workload that these parameters mean. Raises `BadQuestion` for a name or value that is not understood.

    The parameters of `/cheapest` are not read; `passed_on` gives them.
    """
    for name in params:
        if name not in RECOMMEND_PARAMETERS:
            raise BadQuestion(name, f"There is no parameter {name}.", alike(name, RECOMMEND_PARAMETERS))
    parameters, task = _parameters(_needed(params, "params", "8b")), _task(_needed(params, "task", "lora"))
    _refuse_idle(params, task)
    layers, hidden = _whole(params, "layers", _MOST_LAYERS), _whole(params, "hidden", _MOST_WIDTH)
    shape = _shape(parameters, layers, hidden)
    kv_width = _whole(params, "kv_width", _MOST_WIDTH)
    known = {"layers": layers, "hidden": hidden} | ({} if task.trains else {"kv_width": kv_width})
    return Workload(
        parameters=parameters,
        task=task,
        precision=_precision(params, task),
        context_tokens=_whole(params, "context", _MOST_TOKENS) or (_FINE_TUNED if _tunes(task) else _OTHERWISE),
        sequences=_whole(params, "batch", _MOST_SEQUENCES) or 1,
        adapter_share=_adapter_share(params) if task.adapts else None,
        margin=Fraction(_margin_percent(params), 100),
        layers=shape[0],
        hidden=shape[1],
        kv_width=kv_width or min(USUAL_KV_WIDTH, shape[1]),
        estimated=frozenset(name for name, value in known.items() if value is None),
    )


def passed_on(params: Params) -> dict[str, list[str]]:
    """The parameters that are for `/cheapest`, as they were said."""
    return {name: list(texts) for name, texts in params.items() if name not in WORKLOAD_PARAMETERS}


def _needed(params: Params, name: str, example: str) -> str:
    text = _one(params, name)
    if text is None:
        raise BadQuestion(
            name, f"{name} is missing: say {RECOMMEND_PARAMETERS[name].meaning}, such as {name}={example}."
        )
    return text


def _one(params: Params, name: str) -> str | None:
    """The one value; None where the parameter is not there."""
    texts = {text.strip() for text in params.get(name, ())}
    if len(texts) > 1:
        raise BadQuestion(name, f"{name}: one value, please.")
    if "" in texts:
        raise BadQuestion(name, f"{name} is empty: give it a value or leave it out.")
    if any(map(has_control, texts)):
        raise BadQuestion(name, f"{name}={next(iter(texts))!r} holds a control character, which no value has.")
    return next(iter(texts), None)


def _parameters(text: str) -> int:
    found = _WRITTEN.fullmatch(text)
    if found is None:
        raise BadQuestion("params", f"params={text}: write a number such as 8b, 350m, 8e9 or 8000000000.")
    power = int(found[2]) if found[2] else _SUFFIXES[found[3].lower()] if found[3] else 0
    count = Fraction(found[1]) * 10**power
    if not _FEWEST <= count <= _MOST:
        near = [f"{found[1]}b"] if 0 < count <= _MOST_BILLIONS else []
        raise BadQuestion("params", f"params={text}: write a number of parameters from 1m to 100t.", near)
    if count.denominator != 1:
        raise BadQuestion("params", f"params={text} is no whole number of parameters.")
    return int(count)


def _task(text: str) -> Task:
    return member("task", text, Task)


def _tunes(task: Task) -> bool:
    return task.adapts or task is Task.FULL


def _precision(params: Params, task: Task) -> Precision:
    text = _one(params, "precision")
    precision = Precision.BF16 if text is None else member("precision", text, Precision)
    if task.trains and precision not in TRAINED_IN:
        held = " Its weights are held in 4 bits as it is." if task is Task.QLORA else ""
        message = f"precision={precision}: what {task} computes in is bf16, fp16 or fp32.{held}"
        raise BadQuestion("precision", message, list(TRAINED_IN))
    return precision


def _whole(params: Params, name: str, most: int) -> int | None:
    text = _one(params, name)
    return None if text is None else whole(name, text, 1, most)


def _adapter_share(params: Params) -> Fraction:
    text = _one(params, "adapter_percent")
    percent = _ADAPTER_PERCENT if text is None else number("adapter_percent", text)
    if percent > 100:
        raise BadQuestion("adapter_percent", f"adapter_percent={text}: write a number from 0.0001 to 100.")
    return percent / 100


def _margin_percent(params: Params) -> int:
    text = _one(params, "margin_percent")
    return _MARGIN_PERCENT if text is None else whole("margin_percent", text, 0, 100)


def _refuse_idle(params: Params, task: Task) -> None:
    """What has no meaning for the task is refused, not ignored."""
    if "adapter_percent" in params and not task.adapts:
        raise BadQuestion("adapter_percent", f"adapter_percent: {task} has no adapters; leave it out.")
    if "kv_width" in params and task.trains:
        raise BadQuestion("kv_width", f"kv_width: {task} keeps no cache of keys and values; leave it out.")


def _shape(parameters: int, layers: int | None, hidden: int | None) -> tuple[int, int]:
    """Layers and hidden size: as they are known, else estimated from what is."""
    if layers is None:
        layers = estimated_layers(parameters, hidden)
        return layers, ASPECT * layers if hidden is None else hidden
    return layers, estimated_hidden(parameters, layers) if hidden is None else hidden
