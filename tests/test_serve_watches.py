"""The watch of the demo, from polls to a receiver that checks signatures: told once, whatever is killed meanwhile."""

import json
import os
import re
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.support.commands import Served, serving, until

SOLD_OUT_AT_S, BACK_AT_S, LOOP_S = 60, 180, 300
"""Of the demo's scenario."""
OF_STOCK = ("stock.out", "stock.low", "stock.back")


class Demo:
    """A running demo and what its receiver was told."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self.cloud = served.cloud("tencent")
        found = re.search(r"arrives at (http://[\d.:]+)/", served.said())
        assert found is not None, served.said()
        self.receiver = found[1]
        (self.watch,) = httpx2.get(f"{served.url}/watches").json()["items"]

    def received(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = httpx2.get(f"{self.receiver}/_sim/received").json()["items"]
        return found

    def told(self) -> list[str]:
        """The types of the events of stock, each id once, in order."""
        kept = {one["id"]: one for one in self.received()}
        assert all(one["verified"] for one in kept.values())
        return [one["type"] for one in kept.values() if one["type"] in OF_STOCK]

    def data(self, kind: str) -> dict[str, Any]:
        (body,) = {one["body"] for one in self.received() if one["type"] == kind}
        data: dict[str, Any] = json.loads(body)["data"]
        return data

    def state(self) -> str:
        state: str = httpx2.get(f"{self.served.url}/watches/{self.watch['id']}").json()["state"]
        return state

    def becomes(self, state: str) -> None:
        until(lambda: self.state() == state or None, f"the watch is {state}")

    def tells(self, *kinds: str, slowly: bool = False) -> None:
        """`slowly`: once the leases of a process that was killed are over."""
        if slowly:
            with suppress(AssertionError):
                until(lambda: self.told() == list(kinds) or None, "they are told soon")
        until(lambda: self.told() == list(kinds) or None, f"{kinds} are told; it is {self.told()}")

    def winds_to(self, second: int) -> None:
        elapsed_s = httpx2.get(f"{self.cloud}/_sim/clock").json()["elapsed_s"]
        httpx2.post(f"{self.cloud}/_sim/advance", json={"seconds": (second - elapsed_s) % LOOP_S}).raise_for_status()

    def kills_the_worker(self) -> None:
        """The process that polls, evaluates and sends; the server starts another."""
        (worker,) = [pid for pid in self.served.children() if "worker" in _command(pid)]
        os.kill(worker, signal.SIGKILL)
        until(lambda: worker not in self.served.children() or None, "it is gone")


def _command(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text("utf-8")


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Demo]:
    with serving(tmp_path, "--demo") as served:
        yield Demo(served)


def test_sold_out_and_back_are_told_once_each_to_a_receiver_that_verifies_them(demo: Demo) -> None:
    demo.becomes("available")
    demo.winds_to(SOLD_OUT_AT_S + 1)
    demo.tells("stock.out")
    out = demo.data("stock.out")
    assert (out["before"], out["after"], out["fallback"]["region"]) == ("available", "out", "ap-nanjing")
    assert {offer["region"] for offer in out["offers"]} == {"ap-guangzhou"}
    demo.winds_to(BACK_AT_S + 1)
    demo.tells("stock.out", "stock.back")
    watch = httpx2.get(f"{demo.served.url}/watches/{demo.watch['id']}").json()
    assert (watch["state"], watch["last_event"]["type"]) == ("available", "stock.back")
    deliveries = httpx2.get(f"{demo.served.url}/watches/{demo.watch['id']}/deliveries").json()["items"]
    assert {(one["type"], one["status"], one["attempts"]) for one in deliveries if one["type"] in OF_STOCK} == {
        ("stock.out", "sent", 1),
        ("stock.back", "sent", 1),
    }
    page = httpx2.get(f"{demo.receiver}/").text
    assert "stock.out" in page
    assert "signature verified" in page


def test_a_worker_that_is_killed_repeats_nothing_and_loses_nothing(demo: Demo) -> None:
    demo.becomes("available")
    demo.kills_the_worker()
    demo.winds_to(SOLD_OUT_AT_S + 1)
    demo.tells("stock.out", slowly=True)
    demo.winds_to(BACK_AT_S + 1)
    demo.tells("stock.out", "stock.back")


def test_a_provider_that_is_down_tells_of_the_source_and_nothing_of_stock(demo: Demo) -> None:
    demo.becomes("available")
    httpx2.post(f"{demo.cloud}/_sim/fault", json={"provider": "tencent", "kind": "reset"}).raise_for_status()
    demo.winds_to(BACK_AT_S + 1)  # it sold out and came back meanwhile, and nobody could see it
    httpx2.post(f"{demo.cloud}/_sim/fault", json={"clear": True}).raise_for_status()
    demo.becomes("available")
    demo.winds_to(LOOP_S + SOLD_OUT_AT_S + 1)
    demo.tells("stock.out")
