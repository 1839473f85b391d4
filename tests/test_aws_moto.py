"""AWS through moto: another author's EC2, with the instance types that AWS published."""

from collections.abc import Iterator
from fractions import Fraction

import pytest
from moto.server import ThreadedMotoServer

from catalog.facts import Fact, Machine, Note, Offered, Region, Zone
from collectors.aws import Aws
from collectors.base import Cell, Config
from tests.support.pages import NOW

KEYS = {"AWS_ACCESS_KEY_ID": "AKIAMOTO", "AWS_SECRET_ACCESS_KEY": "moto"}


@pytest.fixture(scope="module")
def moto_url() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


def stated(moto_url: str, feed_name: str, region: str) -> list[Fact | Note]:
    feeds = {feed.name: feed for feed in Aws(Config(KEYS, endpoints={"ec2": moto_url})).feeds()}
    cell = Cell("aws", feed_name, region)
    return [item for page in feeds[feed_name].fetch(cell, NOW, {}) for item in feeds[feed_name].parse(page)]


@pytest.fixture(scope="module")
def machines(moto_url: str) -> list[Fact | Note]:
    return stated(moto_url, "machines", "us-east-1")


def test_regions_are_read(moto_url: str) -> None:
    regions = {item.region: item for item in stated(moto_url, "places", "") if isinstance(item, Region)}
    assert regions["us-east-1"].enabled is True
    assert any(region.enabled is False for region in regions.values())


def test_every_accelerated_type_that_aws_published_has_a_model_and_a_count(machines: list[Fact | Note]) -> None:
    found = [item for item in machines if isinstance(item, Machine)]
    assert len(found) > 60
    assert [one.instance_type for one in found if one.gpu is None or not one.gpu_count] == []


@pytest.mark.parametrize(
    ("instance_type", "gpu", "count", "vram_gib"),
    [
        ("p4d.24xlarge", "a100-sxm4-40g", 8, 40),
        ("p4de.24xlarge", "a100-sxm4-80g", 8, 80),
        ("p5.4xlarge", "h100-sxm5-80g", 1, 80),
        ("p5en.48xlarge", "h200-sxm5-141g", 8, 141),
        ("g6.48xlarge", "l4", 8, 24),
        ("g6f.large", "l4", Fraction(1, 8), 3),
        ("g5.xlarge", "a10g", 1, 24),
        ("g6e.xlarge", "l40s", 1, 48),
    ],
)
def test_real_types_have_their_real_accelerators(
    machines: list[Fact | Note], instance_type: str, gpu: str, count: Fraction, vram_gib: int
) -> None:
    """T7, T8: nominal sizes, by the table of instance types."""
    one = next(item for item in machines if isinstance(item, Machine) and item.instance_type == instance_type)
    assert (one.gpu, one.gpu_count, one.vram_mib) == (gpu, count, vram_gib * 1024)


def test_zones_and_offerings_are_by_zone_id(machines: list[Fact | Note]) -> None:
    """T11."""
    zones = {item.zone_id: item.zone for item in machines if isinstance(item, Zone)}
    offered = [item for item in machines if isinstance(item, Offered) and item.instance_type == "p5.48xlarge"]
    assert offered
    assert {item.zone_id for item in offered} <= set(zones)
