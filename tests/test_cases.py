"""The ledger of cases: every case once, every claim of a test true, every one that waits with its reason."""

from collections import Counter

import pytest

from tests.support.ledger import PAGE, STATUSES, WAITS, cases, page, proofs

FIELD_REPORTS, ACCEPTANCE = 113, 22
AREAS = {"collector", "store", "selector", "scheduler", "alerts", "api"}


def test_every_case_is_there_once() -> None:
    ids = [case.id for case in cases()]
    assert [one for one, times in Counter(ids).items() if times > 1] == []
    reports = [one for one in ids if one.startswith("B")]
    accepted = [one for one in ids if one.startswith("T")]
    assert (len(reports), accepted) == (FIELD_REPORTS, [f"T{number}" for number in range(1, ACCEPTANCE + 1)])
    assert len(ids) == FIELD_REPORTS + ACCEPTANCE
    assert reports == sorted(reports)


def test_every_row_says_what_it_proves_and_where_it_stands() -> None:
    for case in cases():
        assert len(case.proves) > 20, case.id
        assert (case.status in STATUSES, case.area in AREAS) == (True, True), case.id


def test_what_a_row_names_is_a_test_that_carries_its_id() -> None:
    known = proofs()
    named = 0
    for case in cases():
        for name in case.covered_by:
            assert name in known, f"{case.id}: there is no {name}"
            assert case.id in known[name].ids, f"{case.id}: {name} does not say so"
            named += 1
    assert named > FIELD_REPORTS


def test_every_test_that_carries_an_id_is_in_its_row() -> None:
    by_id = {case.id: case for case in cases()}
    for name, proof in proofs().items():
        for one in proof.ids:
            assert name in by_id[one].covered_by, f"{name} carries {one}, whose row does not name it"


@pytest.mark.parametrize("status", STATUSES)
def test_a_status_agrees_with_tests_and_reason(status: str) -> None:
    known = proofs()
    found = [case for case in cases() if case.status == status]
    for case in found:
        fails = [known[name].fails for name in case.covered_by]
        assert bool(case.covered_by) is (status != "left"), case.id
        assert any(fails) is (status == "open"), case.id
        assert case.waits_for in WAITS or (not case.waits_for and status in ("covered", "open")), case.id
        assert not (status == "covered" and case.waits_for), case.id
    assert found or status == "open"


def test_the_page_is_what_the_ledger_says() -> None:
    assert PAGE.read_text("utf-8") == page(cases()), "write it anew: python -m tests.support.ledger"
