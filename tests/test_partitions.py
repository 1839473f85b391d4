"""An account is of one of its provider's partitions: what is in another is not its own, of Azure not even shown."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import simcloud
from catalog.partitions import WHOLE, account_of, holds, on_site, partition
from catalog.places import known_regions
from collectors.registry import provider
from scheduler.plan import Configured
from settings import load
from store.archive_export import Used, export
from store.archive_import import import_file
from store.snapshot import load_bundled
from tests.support.endtoend import ENVIRON, Gpufare, gpufare, real

AWS_CN = {**ENVIRON["aws"], "AWS_REGION": "cn-north-1"}


@pytest.mark.parametrize(
    ("name", "region", "said"),
    [
        ("aws", "us-east-1", "aws"),
        ("aws", "us-gov-west-1", "aws-us-gov"),
        ("aws", "cn-northwest-1", "aws-cn"),
        ("aws_cn", "cn-northwest-1", "aws-cn"),
        ("aws", "eusc-de-east-1", "aws-eusc"),
        ("azure", "eastus", "azure"),
        ("azure", "chinanorth3", "azure-cn"),
        ("azure_gov", "USGovVirginia", "azure-us-gov"),
        ("azure", "usdodeast", "azure-us-gov"),
        ("tencent", "ap-guangzhou", WHOLE),
        ("alibaba", "us-east-1", WHOLE),
    ],
)
def test_the_partition_of_a_region_is_told_by_its_name(name: str, region: str, said: str) -> None:
    assert partition(name, region) == said


@pytest.mark.parametrize("kind", ["aws", "azure"])
def test_what_is_in_mainland_china_is_the_chinese_partition_and_nothing_else_is(kind: str) -> None:
    known = {key: place.mainland_china for key, place in known_regions().items() if key[0] == kind}
    assert known
    assert {key: partition(*key) == f"{kind}-cn" for key in known} == known


def test_an_account_holds_the_places_of_its_partition_alone() -> None:
    accounts = frozenset({account_of("aws", None), account_of("azure", "cn"), account_of("tencent", "cn")})
    assert accounts == {("aws", "aws"), ("azure", "azure-cn"), ("tencent", WHOLE)}
    mine = [("aws", "us-east-1"), ("azure", "chinaeast2"), ("tencent", "ap-guangzhou"), ("azure", "")]
    assert all(holds(accounts, *key) for key in mine)
    others = [("aws", "cn-north-1"), ("aws", "us-gov-east-1"), ("azure", "eastus"), ("gcp", "us-central1"), ("gcp", "")]
    assert not any(holds(accounts, *key) for key in others)


def test_azures_sites_are_told_apart_by_their_regions() -> None:
    assert [on_site("azure", "eastus", site) for site in ("cn", "intl", None)] == [False, True, True]
    assert [on_site("azure_cn", "chinaeast2", site) for site in ("cn", "intl", None)] == [True, False, True]
    assert on_site("tencent", "ap-hongkong", "cn")


@contextmanager
def shipped(folder: Path, *made: Configured) -> Iterator[Gpufare]:
    """These providers beside the shipped price list, nothing polled."""
    with gpufare(folder, *made) as running:
        load_bundled(running.engine)
        running.plan()
        yield running


@pytest.fixture(scope="module")
def global_aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gpufare]:
    with shipped(tmp_path_factory.mktemp("aws"), real("aws")) as running:
        yield running


@pytest.mark.parametrize("query", ["mainland_china=true", "region=us-gov*", "region=cn-north-1"])
def test_a_global_aws_account_is_offered_nothing_of_another_partition(global_aws: Gpufare, query: str) -> None:
    answer = global_aws.cheapest(f"gpu=t4&{query}&explain=true")
    assert answer["query"]["accounts"] == "mine"
    assert answer["best"] is None
    assert answer["rejected"]["no_account"] > 0
    everyone = global_aws.cheapest(f"gpu=t4&{query}&accounts=all")["best"]
    assert (everyone["provider"], everyone["account"]) == ("aws", False)
    assert global_aws.cheapest("gpu=t4")["best"]["region"] == "us-east-1"


def test_which_offers_are_a_global_accounts_own_is_shown_of_each(global_aws: Gpufare) -> None:
    own = {one["region"]: one["account"] for one in global_aws.offers("provider=aws")}
    assert own == {"us-east-1": True, "cn-north-1": False, "us-gov-east-1": False, "us-gov-west-1": False}


def test_the_reason_names_the_partition(global_aws: Gpufare) -> None:
    answer = global_aws.cheapest("gpu=t4&region=cn-north-1")
    assert any("no account with aws in aws-cn" in miss["reasons"] for miss in answer["nearest_misses"])


@pytest.mark.parametrize(
    "aws",
    [real("aws", environ=AWS_CN), real("aws", "cn-north-1", "cn-northwest-1")],
    ids=["by AWS_REGION", "by the regions named"],
)
def test_an_account_of_aws_china_has_its_own_places_alone(tmp_path: Path, aws: Configured) -> None:
    with shipped(tmp_path, aws) as running:
        assert running.cheapest("gpu=t4")["best"]["region"] == "cn-north-1"
        assert {one["region"] for one in running.offers("provider=aws&accounts=mine")} == {"cn-north-1"}
        assert running.cheapest("gpu=t4&region=us-east-1")["best"] is None


def test_an_account_of_which_nothing_tells_the_partition_claims_no_place(tmp_path: Path) -> None:
    with shipped(tmp_path, real("aws", "us-east-1", "cn-north-1")) as running:
        assert {one["account"] for one in running.offers("provider=aws")} == {False}
        answer = running.cheapest("gpu=t4")
        assert (answer["query"]["accounts"], answer["best"]["account"]) == ("all", False)


@pytest.fixture(scope="module")
def azure_china(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gpufare]:
    """An Azure China account that was polled whole, beside the shipped price list, which has global places alone."""
    folder = tmp_path_factory.mktemp("azure")
    with simcloud.start("demo", providers=["azure"]) as sim:
        sim.options("azure", site="cn")
        environ = {"HOME": str(folder), **sim.env()}
        loaded = load(environ, folder)
        config = loaded.config_of("azure", environ)
        with shipped(folder, Configured(provider("azure", config), config)) as running:
            running.sync()
            running.sync()
            yield running


def test_an_azure_china_account_is_never_offered_a_global_place(azure_china: Gpufare) -> None:
    offers = azure_china.offers("provider=azure")
    assert {one["region"].startswith("china") for one in offers} == {True}
    assert {one["native_price"]["currency"] for one in offers if one["native_price"]} == {"CNY"}
    assert {(one["account"], one["site"]) for one in offers} == {(True, "cn")}
    assert azure_china.cheapest("gpu=a100-80g&region=azure:eastus")["best"] is None


def test_an_imported_list_of_the_other_cloud_is_not_shown_either(azure_china: Gpufare, tmp_path: Path) -> None:
    before = len(azure_china.offers("provider=azure"))
    file, now = tmp_path / "global.zip", azure_china.clock()
    with shipped(tmp_path, real("azure", environ={})) as other:
        assert export(other.engine, file, Used({"azure"}, {}), now)["azure"] > 700
    import_file(azure_china.engine, file, now)
    assert len(azure_china.offers("provider=azure")) == before
    ours = export(azure_china.engine, file, Used({"azure"}, {"azure": "cn"}), now)
    assert ours["azure"] == before
