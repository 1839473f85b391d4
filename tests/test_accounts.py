"""Two accounts of one provider, side by side: names, settings, credentials, places, limits; never mixed."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import simcloud
from catalog.accounts import SETTABLE, is_credential
from catalog.launch_codes import CodeKind, code_kind
from catalog.places import known_region, regions_of_city
from collectors import alibaba_api, aws_ec2, azure_wire, gcp_auth, runpod_api, tencent_api, ucloud_api
from collectors.base import AuthFailed, ByMachine, Config, ProviderError
from collectors.registry import PROVIDERS, provider
from settings import Settings, SettingsError, load
from tests.support.canned import Canned, canned
from tests.support.contract import contract_of
from tests.support.ec2 import ec2, refusal
from tests.support.endtoend import gpufare, real
from tests.support.pages import NOW

SECRET = "S3cr3t-of-the-second"
OWN = "GPUFARE_PROVIDERS__TENCENT_INTL__"
FIRST = {"TENCENTCLOUD_SECRET_ID": "first", "TENCENTCLOUD_SECRET_KEY": "S3cr3t-of-the-first"}
SECOND = {f"{OWN}CREDENTIALS__TENCENTCLOUD_SECRET_{half}": value for half, value in (("ID", "second"), ("KEY", SECRET))}


def of(folder: Path, **environ: str) -> Settings:
    return load({"HOME": "/home/ada", **environ}, folder)


def test_an_account_takes_its_own_credentials_and_no_others(tmp_path: Path) -> None:
    found = of(tmp_path, **FIRST, **SECOND, **{f"{OWN}SITE": "intl", "GPUFARE_PROVIDERS__TENCENT__SITE": "cn"})
    assert {"tencent", "tencent_intl"} <= set(found.names())
    assert "tencent_intl" not in of(tmp_path, **FIRST).names()
    first, second = (found.config_of(name, FIRST) for name in ("tencent", "tencent_intl"))
    assert dict(first.environ) == FIRST
    assert dict(second.environ) == {"TENCENTCLOUD_SECRET_ID": "second", "TENCENTCLOUD_SECRET_KEY": SECRET}
    assert (first.site, second.site) == ("cn", "intl")


def test_an_account_of_aws_says_that_it_is_beside_the_first_and_needs_its_partition_told(tmp_path: Path) -> None:
    process = {"AWS_ACCESS_KEY_ID": "first", "AWS_SECRET_ACCESS_KEY": "first", "AWS_REGION": "us-east-1"}
    own = "GPUFARE_PROVIDERS__AWS_CN__"
    keys = {f"{own}CREDENTIALS__AWS_ACCESS_KEY_ID": "second", f"{own}CREDENTIALS__AWS_SECRET_ACCESS_KEY": SECRET}
    config = of(tmp_path, **process, **keys).config_of("aws_cn", process)
    assert (config.beside, of(tmp_path).config_of("aws", process).beside) == (True, False)
    off = provider("aws_cn", config).off()
    assert set(off) == {"prices", "places", "machines", "spot", "stock", "scores"}
    assert all(f"{own}REGIONS" in why and "AWS_REGION" in why for why in off.values())
    told = of(tmp_path, **process, **keys, **{f"{own}REGIONS": "cn-north-1"}).config_of("aws_cn", process)
    assert provider("aws_cn", told).off() == {}


def test_an_account_without_credentials_is_off_and_says_what_to_set(tmp_path: Path) -> None:
    found = of(tmp_path, **FIRST, **{f"{OWN}REGIONS": "ap-singapore"})
    off = provider("tencent_intl", found.config_of("tencent_intl", FIRST)).off()
    assert set(off) == {"places", "machines", "stock"}
    assert all(f"{OWN}SITE" in why and f"{OWN}CREDENTIALS__" in why and "TENCENT__" not in why for why in off.values())


def test_the_first_accounts_credentials_may_stand_in_the_settings_too(tmp_path: Path) -> None:
    own = {"GPUFARE_PROVIDERS__TENCENT__CREDENTIALS__TENCENTCLOUD_SECRET_ID": "here"}
    assert of(tmp_path, **own).config_of("tencent", FIRST).environ["TENCENTCLOUD_SECRET_ID"] == "here"


def test_the_file_writes_variables_as_the_environment_does_and_the_environment_wins(tmp_path: Path) -> None:
    (tmp_path / "gpufare.toml").write_text(
        f'[providers.tencent_intl.credentials]\nTENCENTCLOUD_SECRET_ID = "file"\nTENCENTCLOUD_SECRET_KEY = "{SECRET}"\n'
    )
    assert of(tmp_path).config_of("tencent_intl", {}).environ["TENCENTCLOUD_SECRET_ID"] == "file"
    assert of(tmp_path, **SECOND).config_of("tencent_intl", {}).environ["TENCENTCLOUD_SECRET_ID"] == "second"


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        (f"{OWN}CREDENTIALS__AWS_ACCESS_KEY_ID", SECRET, "Allowed there: TENCENTCLOUD_SECRET_ID, "),
        (f"{OWN}CREDENTIALS", SECRET, "this is a group"),
        ("GPUFARE_PROVIDERS__TENCNT_INTL__SITE", "intl", "there is no such setting"),
        ("GPUFARE_PROVIDERS__TENCENT_INTL_TWO__SITE", "intl", "there is no such setting"),
        ("GPUFARE_PROVIDERS__AWS_CN__SITE", "cn", "there is no such setting"),
        ("GPUFARE_ONLY", "tencnt_intl", "is not one of"),
    ],
)
def test_a_name_that_is_no_accounts_is_refused_and_no_secret_shown(
    tmp_path: Path, name: str, value: str, said: str
) -> None:
    with pytest.raises(SettingsError, match=said) as caught:
        of(tmp_path, **{name: value})
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("kind", list(PROVIDERS))
@pytest.mark.parametrize("account", ["", "_two"])
def test_a_misspelt_credential_is_refused_with_the_one_that_is_meant(tmp_path: Path, kind: str, account: str) -> None:
    group = f"GPUFARE_PROVIDERS__{kind}{account}__CREDENTIALS__".upper()
    for name in SETTABLE[kind]:
        for wrong in (f"{name}D", name[:-1], name.replace("_", "__", 1)):
            with pytest.raises(SettingsError) as caught:
                of(tmp_path, **{group + wrong: SECRET})
            [problem] = caught.value.problems
            assert problem.startswith(f"{group}{wrong} (environment): there is no such setting. Did you mean ")
            assert f"{group}{name}" in re.split(r"Did you mean | or |\? ", problem)
            assert SECRET not in problem


@pytest.mark.parametrize("last", ["SECRET_IDD", "SECRET_ID", "TENCENTCLOUD_SECRET_ID"])
def test_a_credential_beside_its_group_is_refused_with_its_place(tmp_path: Path, last: str) -> None:
    with pytest.raises(SettingsError) as caught:
        of(tmp_path, **{OWN + last: SECRET})
    [problem] = caught.value.problems
    assert f"Did you mean {OWN}CREDENTIALS__TENCENTCLOUD_SECRET_ID or " in problem


def test_a_misspelt_credential_of_the_file_is_refused_too(tmp_path: Path) -> None:
    (tmp_path / "gpufare.toml").write_text(f'[providers.aws_cn.credentials]\nAWS_ACCESS_KEY_IDD = "{SECRET}"\n')
    with pytest.raises(SettingsError, match=r"aws_access_key_idd .*Did you mean .*aws_access_key_id or ") as caught:
        of(tmp_path)
    assert SECRET not in str(caught.value)


def test_what_settings_may_hold_of_credentials_is_what_is_read_of_them() -> None:
    read = {
        "alibaba": alibaba_api.SENT,
        "aws": (*aws_ec2.KEYS, "AWS_SESSION_TOKEN", aws_ec2.CHAIN[0], *aws_ec2.TOLD_BY),
        "azure": azure_wire.KEYS,
        "gcp": (gcp_auth.KEY, gcp_auth.FILE, gcp_auth.PROJECT),
        "runpod": (runpod_api.KEY,),
        "tencent": tencent_api.SENT,
        "ucloud": (*ucloud_api.KEYS, ucloud_api.PROJECT),
    }
    assert {kind: set(names) for kind, names in SETTABLE.items()} == {kind: set(names) for kind, names in read.items()}
    assert all(is_credential(kind, name) for kind, names in SETTABLE.items() for name in names)


def test_no_text_shows_an_accounts_secret(tmp_path: Path) -> None:
    found = of(tmp_path, **SECOND, **{f"{OWN}SITE": "intl"})
    config = found.config_of("tencent_intl", {})
    built = provider("tencent_intl", config)
    for text in (repr(found), str(found), repr(config), repr(built), *(repr(feed) for feed in built.feeds())):
        assert SECRET not in text


def test_an_account_has_its_providers_places_and_launch_codes() -> None:
    known = known_region("tencent_intl", "ap-nanjing")
    assert known is not None
    assert known.city_en == "Nanjing"
    assert regions_of_city("nanjing", frozenset({"tencent_intl"})) == [("tencent_intl", "ap-nanjing")]
    assert code_kind("tencent_intl", "ResourcesSoldOut.SpecifiedInstanceType") is CodeKind.CAPACITY


def test_an_accounts_feeds_are_the_providers_under_its_name_with_limits_of_its_own() -> None:
    config = Config(FIRST, ("ap-nanjing",), "intl")
    for theirs, ours in zip(provider("tencent", config).feeds(), provider("tencent_intl", config).feeds(), strict=True):
        cells, own = list(theirs.cells(["ap-nanjing"])), list(ours.cells(["ap-nanjing"]))
        assert [(cell.feed, cell.place, cell.part) for cell in cells] == [(c.feed, c.place, c.part) for c in own]
        assert {cell.provider for cell in own} == {"tencent_intl"}
        assert (ours.provider, ours.name, ours.every, ours.fresh_for, ours.absent) == (
            "tencent_intl",
            *(theirs.name, theirs.every, theirs.fresh_for, theirs.absent),
        )
        assert {theirs.limit(cell).key for cell in cells}.isdisjoint(ours.limit(cell).key for cell in own)
        assert isinstance(ours, ByMachine) is isinstance(theirs, ByMachine)


def _met(name: str, config: Config, feed_name: str) -> str:
    """What the first cell of an account's feed meets."""
    (feed,) = (one for one in provider(name, config).feeds() if one.name == feed_name)
    cell = next(iter(feed.cells(["us-east-1"])))
    with pytest.raises(ProviderError) as caught:
        list(feed.fetch(cell, NOW, {}))
    return str(caught.value)


def test_an_error_of_another_account_names_its_settings_its_command_and_itself() -> None:
    keys = {"AWS_ACCESS_KEY_ID": "AKIDSECOND", "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1"}
    own = "GPUFARE_PROVIDERS__AWS_CN__CREDENTIALS__"
    with ec2(lambda _: refusal("AuthFailure", 401)) as server:
        config = Config(keys, endpoints={"ec2": server.url}, beside=True)
        refused = _met("aws_cn", config, "places")
        assert _met("aws", config, "places").endswith("look at AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
    assert refused.startswith("aws_cn ec2 DescribeRegions")
    assert refused.endswith(f"look at {own}AWS_ACCESS_KEY_ID and {own}AWS_SECRET_ACCESS_KEY")
    with ec2(lambda _: refusal("UnauthorizedOperation", 403)) as server:
        forbidden = _met("aws_cn", Config(keys, endpoints={"ec2": server.url}, beside=True), "places")
    assert forbidden.endswith("then run `gpufare sync aws_cn`")
    assert "ec2:DescribeRegions" in forbidden


def test_a_setting_that_cannot_be_used_is_named_as_the_accounts_own() -> None:
    config = Config(FIRST, ("ap-nanjing",), "intl", {"region": "nowhere", "cvm": "nowhere"})
    assert _met("tencent_intl", config, "places").startswith(f"{OWN}ENDPOINTS__REGION is no address")


@pytest.mark.parametrize("kind", list(PROVIDERS))
def test_a_key_that_cannot_be_sent_is_named_as_it_was_set_for_every_provider(kind: str) -> None:
    contract = contract_of(kind)
    variables = [name for name in contract.config.environ if is_credential(kind, name)]
    assert variables
    with canned(Canned(200, b"{}")) as server:
        for name in variables:
            bent = replace(contract.at(server.url), environ={**contract.config.environ, name: "clé"})
            for feed in provider(f"{kind}_two", bent).feeds():
                if feed.name not in contract.keyless:
                    with pytest.raises(
                        AuthFailed, match=f"GPUFARE_PROVIDERS__{kind.upper()}_TWO__CREDENTIALS__{name} "
                    ):
                        contract.drained(feed)


def test_two_sites_side_by_side_are_never_mixed(tmp_path: Path) -> None:
    with simcloud.start("demo", providers=("tencent",)) as cn, simcloud.start("demo", providers=("tencent",)) as intl:
        cn.options("tencent", secret_id="first", secret_key="S3cr3t-of-the-first")
        intl.options("tencent", secret_id="second", secret_key=SECRET, site="intl")
        here, there = cn.tencent.url, intl.tencent.url
        second = {"TENCENTCLOUD_SECRET_ID": "second", "TENCENTCLOUD_SECRET_KEY": SECRET}
        first = real("tencent", "ap-nanjing", site="cn", environ=FIRST, cvm=here, region=here)
        other = real("tencent_intl", "ap-nanjing", site="intl", environ=second, cvm=there, region=there)
        with gpufare(tmp_path, first, other) as app:
            assert {row.result.status for row in app.sync()} == {"ok"}
            by_account = {name: app.offers(f"provider={name}") for name in ("tencent", "tencent_intl")}
            assert {(one["site"], one["native_price"]["currency"]) for one in by_account["tencent"]} == {("cn", "CNY")}
            of_other = {(one["site"], one["native_price"]["currency"]) for one in by_account["tencent_intl"]}
            assert of_other == {("intl", "USD")}
            assert len(by_account["tencent"]) == len(by_account["tencent_intl"]) > 0
            with intl.down("tencent"):
                app.later(minutes=1)
                assert {row.provider for row in app.sync() if row.result.status == "failed"} == {"tencent_intl"}
            assert app.feed("tencent", "stock")["status"] == "ok"
            one = by_account["tencent"][0]
            told = {"region": "ap-nanjing", "zone": one["zone"], "instance_type": one["instance_type"]}
            met = {"purchase": "on_demand", "outcome": "error", "code": "ResourcesSoldOut.SpecifiedInstanceType"}
            app.post("/launches", {"provider": "tencent_intl", **told, **met})
            observed = {each["provider"] for each in app.offers() if each["stock"]["evidence"] == "observed"}
            assert observed == {"tencent_intl"}
        assert {seen.credential for seen in cn.requests()} == {"first"}
        assert {seen.credential for seen in intl.requests()} == {"second"}


def test_another_accounts_keys_in_the_place_of_the_first_leave_nothing_that_the_first_was_told(tmp_path: Path) -> None:
    """Its price must not stand as confirmed beside stock that the other account is told of."""
    with simcloud.start("demo", providers=("tencent",)) as sim:
        at: Any = {"cvm": sim.tencent.url, "region": sim.tencent.url}
        sim.options("tencent", secret_id="first", secret_key="S3cr3t-of-the-first")
        with gpufare(tmp_path, real("tencent", "ap-nanjing", site="cn", environ=FIRST, **at)) as app:
            app.sync()
            assert app.offers("provider=tencent")
            second = {"TENCENTCLOUD_SECRET_ID": "second", "TENCENTCLOUD_SECRET_KEY": SECRET}
            app.configured = [real("tencent", "ap-nanjing", site="cn", environ=second, **at)]
            app.plan()
            assert app.offers("provider=tencent") == []
            assert app.cheapest("gpu=v100&provider=tencent")["verdict"] == "no_source", "not read, and not sold out"
            assert app.feed("tencent", "stock")["reason"] == "not polled yet"
            sim.options("tencent", secret_id="second", secret_key=SECRET)
            app.sync()
            assert app.offers("provider=tencent")
