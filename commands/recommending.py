"""A recommendation for a person: the arithmetic as a table, the numbers of GPUs that would do, and the cheapest."""

from collections.abc import Mapping
from typing import Any

from commands import showing
from commands.output import say

Json = Mapping[str, Any]


def show(answer: Json, *, explain: bool) -> None:
    """The sentence, the terms, the options, and the answer of `/cheapest`."""
    need = answer["need"]
    say(answer["message"])
    rows = [(term["name"], term["gib"], term["formula"]) for term in answer["terms"]]
    showing.table(("memory", "GiB", "how"), [*rows, ("all", need["total_gib"], "")], title="")
    currency = answer["cheapest"]["query"]["currency"]
    options = (_option_row(option, currency) for option in answer["options"])
    showing.table(("GPUs", "GiB each", "NVLink", "per hour", ""), options, title="")
    say(f"\nGPUs: {need['gpu_reason']}")
    say(f"NVLink: {_yes(need['nvlink'])}, {need['nvlink_reason']}")
    say(f"spot: {_yes(need['spot_fits'])}, {need['spot_reason']}")
    for assumed in answer["assumptions"]:
        say(f"assumed: {assumed}")
    say(f"asked: {answer['query']['path']}\n")
    showing.cheapest(answer["cheapest"], explain=explain)


def _option_row(option: Json, currency: str) -> tuple[str, ...]:
    doubt = {True: "", False: " unconfirmed", None: ""}[option["confirmed"]]
    price = "no offer" if option["confirmed"] is None else f"{option['price_per_hour']} {currency}{doubt}"
    chosen = "chosen" if option["chosen"] else ""
    return (option["gpus"], option["min_vram_gib"], _yes(option["nvlink"]), price, chosen)


def _yes(value: bool) -> str:
    return "yes" if value else "no"
