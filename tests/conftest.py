"""Which database a test runs on."""

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.support import databases

settings.register_profile("gpufare", deadline=None)  # how long an example takes is no matter of right and wrong
settings.load_profile("gpufare")


LONG = ("test_serve", "test_cli", "test_worker", "test_all_clouds", "test_many_workers", "test_readme", "test_bench")
"""Files whose few tests take long: begun first, so that no core waits for another one in the end."""


def pytest_xdist_auto_num_workers() -> int:
    """Two processes a core: many tests wait for servers and processes of their own."""
    return 2 * (os.cpu_count() or 1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: LONG.index(item.path.stem) if item.path.stem in LONG else len(LONG))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.definition.get_closest_marker("both_databases"):
        metafunc.parametrize("database", ["sqlite", "postgresql"], indirect=True)


@pytest.fixture(autouse=True)
def database(request: pytest.FixtureRequest) -> Iterator[str]:
    """The kind of database that `tests.support.databases.address` gives: SQLite, unless the test is for both.

    Autouse, so that it is there before any fixture that opens one, whether the test names it or not.
    """
    wanted: str | None = getattr(request, "param", None)
    if wanted is None:  # nothing is to be emptied after each test: fixtures of a whole module hold engines too
        yield databases.kind()
        return
    with databases.running_on(wanted):
        yield wanted


def pytest_sessionfinish() -> None:
    databases.drop()
