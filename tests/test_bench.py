"""The benches' parts at tiny sizes: what they measure is right, and a peer does the same work. No time is asserted."""

import asyncio
import json
import os
import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from sqlalchemy import Engine, func, select

from bench import history, pricelist, raw, selector, serving, workers, writes
from bench.clouds import simulated
from bench.clouds import workers as running_workers
from bench.databases import POSTGRESQL, SQLITE, VARIABLE, Kind, missing
from bench.load import closed_loop, open_loop
from bench.offers import NOW, facts_of, market
from bench.processes import BenchError, environment, started, told_by, wait_until
from bench.rounds import Pairs, in_turns, percentile
from bench.server import main as _serve  # noqa: F401 - imports all that the server process needs
from bench.table import Line, at_least, at_most, figure_at_most, skipped, text
from catalog.accelerators import accelerators
from catalog.facts import Machine, Price
from catalog.parameters import PARAMETERS
from catalog.spec import Spec, StockWish
from catalog.words import Purchase
from selector.context import Context
from selector.index import Index
from selector.rank import browse, rank
from selector.ranking import Match
from store.engine import reading
from store.tables import PRICE_LOG, SYNCS

ROOT = Path(__file__).parent.parent
NOWHERE = "postgresql+psycopg://nobody@127.0.0.1:1/nothing"


def alive(process_id: int) -> bool:
    return Path(f"/proc/{process_id}").exists()


# --- the market and the questions -------------------------------------------------------------------------------------


def test_a_market_has_its_size_and_is_the_same_at_every_run() -> None:
    sold = market(3_000, regions=40)
    sales = [sale for some in sold.values() for sale in some]
    assert (len(sales), len(sold)) == (3_000, 40)
    assert sold == market(3_000, regions=40)
    assert len({(sale.place, sale.machine.instance_type, sale.purchase) for sale in sales}) == 3_000


def test_no_accelerator_has_more_than_its_part_of_a_market_and_the_popular_have_most() -> None:
    counted = Counter(sale.machine.gpu for some in market(20_000).values() for sale in some)
    assert max(counted.values()) == 400  # 20,000 of a million
    assert counted["h100-sxm5-80g"] == 400
    assert counted.keys() == accelerators().keys()
    assert min(counted.values()) < 100


def test_a_cell_states_each_machine_once_and_a_price_and_a_stock_for_each_offer() -> None:
    (sales,) = market(300, regions=1).values()
    kinds = Counter(type(fact).__name__ for fact in facts_of(sales))
    assert (kinds["Price"], kinds["Stock"]) == (300, 300)
    assert kinds["Machine"] == len({sale.machine.instance_type for sale in sales}) < 300


def test_every_stored_question_is_understood_and_some_match_nothing() -> None:
    sold = market(10_000)
    index = selector.filled({key: [sale.offer() for sale in sales] for key, sales in sold.items()})
    context = Context(now=NOW, rates=index.rates)
    asked = list(selector.understood(index, sold))
    assert len(asked) == len(set(selector.questions())) == 200
    without = sum(rank(index, spec, context, changed).best is None for spec, changed in asked)
    assert 20 <= without < 70  # of the largest market a tenth; of a small one more
    assert sum(each.spec.gpus is None for each in asked) == 13


def test_every_parameter_is_in_use_in_the_stored_questions() -> None:
    assert {name for question in selector.questions() for name in parse_qs(question)} == PARAMETERS.keys()


# --- gpuhunt ----------------------------------------------------------------------------------------------------------


def test_a_question_that_gpuhunt_can_express_is_put_to_it_in_its_own_terms() -> None:
    sold = market(2_000)
    index = selector.filled({key: [sale.offer() for sale in sales] for key, sales in sold.items()})
    terms = {
        question: selector.gpuhunt_terms(spec)
        for question, (spec, _) in zip(selector.questions(), selector.understood(index, sold), strict=True)
    }
    assert terms["gpu=a40"] == {
        "provider": None,
        "gpu_name": ["a40"],
        "min_gpu_count": 1,
        "max_gpu_count": 1,
        "min_gpu_memory": None,
        "min_total_gpu_memory": None,
        "min_cpu": None,
        "min_memory": None,
        "max_price": None,
        "spot": False,
    }
    assert not any(found for question, found in terms.items() if "region=" in question or "stock=" in question)
    assert len([found for found in terms.values() if found is not None]) > 70


def test_gpuhunt_finds_the_same_offers() -> None:
    pytest.importorskip("gpuhunt", reason="gpuhunt is installed for the benchmark alone")
    sold = market(3_000)
    offers = {key: [sale.offer() for sale in sales] for key, sales in sold.items()}
    index = selector.filled(offers)
    catalog = selector.gpuhunt_catalog((offer for some in offers.values() for offer in some), index.rates)
    context = Context(now=NOW, rates=index.rates)
    compared = 0
    for question, (spec, _) in zip(selector.questions(), selector.understood(index, sold), strict=True):
        terms = selector.gpuhunt_terms(spec)
        if terms is not None:
            ours = [match.offer for match in _all_matches(index, spec, context)]
            theirs = Counter(item.instance_name for item in catalog.query(**terms))
            assert Counter(offer.machine.instance_type for offer in ours) == theirs, question
            compared += len(ours)
    assert compared > 1_000


def _all_matches(index: Index, spec: Spec, context: Context) -> list[Match]:
    return browse(index, replace(spec, stock=StockWish.ALL, limit=10_000), context)[0]


# --- tables and rounds ------------------------------------------------------------------------------------------------


def test_a_line_is_held_to_its_ratio_or_to_its_figure() -> None:
    line = Line(name="one", figure=30.0, unit="rows/s", peer="raw", peer_figure=60.0, limit=at_least(0.5))
    assert (line.over_peer, line.verdict) == (0.5, "met")
    assert Line(name="one", figure=29.0, unit="", peer_figure=60.0, limit=at_least(0.5)).verdict == "falls short"
    assert Line(name="one", figure=3.0, unit="", peer_figure=1.0, limit=at_most(2)).verdict == "falls short"
    assert Line(name="one", figure=3.0, unit="", ratio=1.9, limit=at_most(2)).verdict == "met"
    assert Line(name="one", figure=20.1, unit="ms", limit=figure_at_most(20, "ms")).verdict == "falls short"
    assert Line(name="one", figure=3.0, unit="ms").verdict == "reported"
    assert Line(name="one", figure=3.0, unit="ms", limit=at_least(1)).verdict == "no peer"


def test_the_table_shows_figure_peer_ratio_limit_and_verdict() -> None:
    line = Line(name="one", figure=12345.6, unit="rows/s", peer="raw", peer_figure=0.123456, limit=at_least(0.5))
    header, first, second = text([line, skipped("two", "skipped: no PostgreSQL")]).splitlines()
    assert header.split() == ["bench", "figure", "unit", "peer", "peer's", "ratio", "limit"]
    assert first.split() == ["one", "12,346", "rows/s", "raw", "0.123", "100,000", "x", ">=", "0.5", "x", "met"]
    assert second.split() == ["two", "skipped", "skipped:", "no", "PostgreSQL"]


def test_peer_and_ours_are_measured_in_turns_and_compared_round_by_round() -> None:
    said: list[str] = []

    def measured(who: str, values: list[float]) -> Callable[[], float]:
        def measure() -> float:
            said.append(who)
            return values.pop(0)

        return measure

    found = in_turns(3, measured("peer", [1.0, 10.0, 2.0]), measured("ours", [2.0, 30.0, 3.0]))
    assert said == ["peer", "ours"] * 3
    assert (found.peer_figure, found.figure, found.ratio) == (2.0, 3.0, 2.0)


def test_a_percentile_is_one_of_the_values() -> None:
    values = [float(number) for number in range(1, 201)]
    assert [percentile(values, percent) for percent in (50, 99, 100)] == [100.0, 198.0, 200.0]
    assert percentile([7.0], 99) == 7.0


# --- writes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [SQLITE, POSTGRESQL], ids=lambda kind: kind.name)
def test_the_peer_of_writes_leaves_the_rows_that_record_leaves(kind: Kind) -> None:
    if why := missing(kind):
        pytest.skip(why)
    answers = writes.stated(market(400, regions=4))
    with kind.new() as url, writes.opened(url) as engine:
        writes.planned(engine, list(answers))
        writes.recorded(engine, writes.claimed(engine, NOW), answers, NOW)
        rows = raw.rows_of(engine)
    assert len(rows) == 4
    assert sum(len(cell["prices"]) for cell in rows) == sum(len(cell["price_log"]) for cell in rows) == 400
    with kind.new() as url:
        with writes.opened(url):
            pass
        _, load, _ = writes.PEERS[kind.name]
        load(url, rows)
        with writes.opened(url) as engine:
            assert _sorted(raw.rows_of(engine)) == _sorted(rows)


def _sorted(cells: list[raw.CellRows]) -> list[list[tuple[object, ...]]]:
    return sorted(sorted((name, *map(str, row)) for name, rows in cell.items() for row in rows) for cell in cells)


def test_one_offer_in_a_hundred_is_changed() -> None:
    before = market(2_000, regions=2)
    after = writes.with_changes(before)
    pairs = [pair for key in before for pair in zip(before[key], after[key], strict=True)]
    changed = [(old, new) for old, new in pairs if old != new]
    assert 20 <= len(changed) <= 22
    assert all(new.nanos > old.nanos for old, new in changed)


# --- the price list ---------------------------------------------------------------------------------------------------


def test_reader_and_csv_module_keep_the_same_lines_of_the_price_list(tmp_path: Path) -> None:
    file = tmp_path / f"offers/v1.0/aws/AmazonEC2/current/{pricelist.REGION}/index.csv"
    part = pricelist.write_price_list(file, 1)
    lines = file.read_bytes().count(b"\n") - 6
    rows = pricelist.read_with_csv(file)
    assert len(rows) == round(part * lines) == 420
    assert 0.019 < part < 0.021
    with pricelist.file_server(tmp_path) as url:
        facts = pricelist.facts_of(pricelist.read_with_ours(url))
    prices = [fact for fact in facts if isinstance(fact, Price)]
    instance_type = pricelist.COLUMNS.index("Instance Type")
    assert {price.instance_type for price in prices} == {row[instance_type] for row in rows}
    assert Counter(price.purchase for price in prices) == {
        Purchase.ON_DEMAND: 60,
        Purchase.RESERVED_1Y: 60,
        Purchase.RESERVED_3Y: 60,
    }
    assert sum(isinstance(fact, Machine) for fact in facts) == 60


def test_a_reading_in_a_process_of_its_own_tells_its_time_and_memory(tmp_path: Path) -> None:
    file = tmp_path / f"offers/v1.0/aws/AmazonEC2/current/{pricelist.REGION}/index.csv"
    pricelist.write_price_list(file, 1)
    with pricelist.file_server(tmp_path) as url:
        told = told_by([pricelist.MODULE, "ours", url], tmp_path)
    assert told["facts"] > 140
    assert told["peak_mib"] > 0
    assert told.keys() == {"read_s", "facts_s", "fetched_s", "facts", "peak_mib"}


# --- load and servers -------------------------------------------------------------------------------------------------


async def _loaded(
    measure: Callable[[int], Coroutine[Any, Any, dict[str, float]]],
) -> tuple[dict[str, float], int]:
    """What a measurement says of a server that answers 404 where `missing` is asked, and how often it was asked."""
    asked, left = 0, []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        ended = asyncio.Event()
        left.append(ended)
        while line := await reader.readline():
            while await reader.readline() != b"\r\n":
                continue
            asked += 1
            status = b"404 Not Found" if b"missing" in line else b"200 OK"
            writer.write(b"HTTP/1.1 %s\r\ncontent-length: 5\r\n\r\nab" % status)
            await writer.drain()
            writer.write(b"cde")
        writer.close()
        await writer.wait_closed()
        ended.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        told = await measure(server.sockets[0].getsockname()[1])
        await asyncio.gather(*(ended.wait() for ended in left))
    return told, asked


def test_the_load_counts_whole_answers_and_those_that_are_no_200() -> None:
    told, asked = asyncio.run(_loaded(lambda port: closed_loop(port, ["/a", "/missing"], 2, 0.2)))
    measured = asked - 50  # those before the clock runs
    assert abs(told["failed"] - measured / 2) <= 1
    assert told["per_s"] > 0
    assert told["p99_ms"] >= told["p50_ms"] > 0


def test_an_open_loop_sends_as_many_as_were_due() -> None:
    told, asked = asyncio.run(_loaded(lambda port: open_loop(port, ["/a"], 100, 0.3)))
    assert (asked, told["failed"]) == (30, 0)


def test_the_ready_made_route_gives_the_bytes_of_cheapest(tmp_path: Path) -> None:
    with SQLITE.new() as url:
        serving.fill(url, 600)
        with serving.serving(url, tmp_path) as port:
            asked = serving.first_plain()
            targets = [f"/{route}?{asked}" for route in ("ready-made", "cheapest")]
            bodies = [json.loads(_body(f"http://127.0.0.1:{port}{target}")) for target in targets]
            assert bodies[0]["best"]["instance_type"] == bodies[1]["best"]["instance_type"]
            assert serving.load(port, targets, tmp_path, connections=1, seconds=0.2)["failed"] == 0
            with pytest.raises(BenchError, match="did not end in a 200"):
                serving.load(port, ["/cheapest?gpu=nonsense"], tmp_path, connections=1, seconds=0.1)


def _body(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310 - on this machine
        return bytes(answer.read())


# --- processes --------------------------------------------------------------------------------------------------------


def test_a_process_ends_with_its_block_however_that_ends(tmp_path: Path) -> None:
    ids: list[int] = []

    def interrupted() -> None:
        with started(["http.server", "--bind", "127.0.0.1", "0"], environment(), tmp_path) as process:
            assert alive(process.pid)
            ids.append(process.pid)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not alive(ids[0])


def test_what_does_not_come_in_time_is_said() -> None:
    with pytest.raises(BenchError, match=r"the moon is blue: not within 0\.05 s"):
        wait_until("the moon is blue", lambda: False, patience_s=0.05)


def test_a_worker_polls_the_simulated_cloud_and_ends_with_its_block(tmp_path: Path) -> None:
    with simulated(["tencent"], tmp_path, latency_ms=1) as clouds, SQLITE.new() as url, writes.opened(url) as engine:
        environ = environment(**{**clouds, **workers.SETTINGS, "GPUFARE_DATABASE_URL": url})
        with running_workers(1, environ, tmp_path) as ids:
            wait_until("polls", lambda: _ok_polls(engine) > 5)
            assert alive(ids[0])
        assert not alive(ids[0])


def _ok_polls(engine: Engine) -> int:
    with reading(engine) as connection:
        query = select(func.count()).select_from(SYNCS).where(SYNCS.c.status == "ok")
        return connection.execute(query).scalar_one()


# --- history ----------------------------------------------------------------------------------------------------------


def test_the_log_of_a_month_holds_changes_alone() -> None:
    with SQLITE.new() as url, writes.opened(url) as engine:
        history.lived(engine, polls=4)
        with reading(engine) as connection:
            rows = connection.execute(select(func.count()).select_from(PRICE_LOG)).scalar_one()
    offers = history.OFFERS // history.CELLS
    assert rows == offers + 3 * offers // history.CHANGED


# --- the whole --------------------------------------------------------------------------------------------------------


def test_a_run_prints_its_table_and_writes_its_lines_where_there_is_no_postgresql(tmp_path: Path) -> None:
    told = tmp_path / "bench.json"
    command = [sys.executable, "-m", "bench", "history", "--quick", "--json", str(told)]
    run = subprocess.run(  # noqa: S603
        command, cwd=ROOT, env=os.environ | {VARIABLE: NOWHERE}, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert "skipped: no PostgreSQL at postgresql+psycopg://nobody@127.0.0.1:1/nothing" in run.stdout
    lines = {line["name"]: line for line in json.loads(told.read_text())["lines"]}
    assert 0.01 < lines["price_log, SQLite, 0.5 days of 100,000 offers"]["ratio"] < 0.05
    assert lines["history, PostgreSQL"]["verdict"] == "skipped"


def test_a_bench_that_does_not_exist_is_refused_by_name() -> None:
    command = [sys.executable, "-m", "bench", "nonsense"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603
    assert run.returncode == 2
    assert "nonsense is no bench; there are writes, serving, pricelist" in run.stderr


def test_pairs_of_one_round_are_their_own_medians() -> None:
    assert Pairs([4.0], [2.0]).ratio == 0.5
