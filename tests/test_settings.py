"""Settings: where they come from, what they refuse, what they never print, and that the documents agree with them."""

import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

import settings
from catalog.accounts import CREDENTIALS
from catalog.snapshot_data import snapshot_rows
from collectors.base import Config
from collectors.registry import PROVIDERS
from settings import Settings, SettingsError, load

ROOT = Path(settings.__file__).parent
HOME = "/home/ada"


def of(folder: Path, **environ: str) -> Settings:
    return load({"HOME": HOME, **environ}, folder)


def of_file(folder: Path, text: str, **environ: str) -> Settings:
    (folder / "gpufare.toml").write_text(text, encoding="utf-8")
    return of(folder, **environ)


def refused(folder: Path, environ: Mapping[str, str]) -> list[str]:
    with pytest.raises(SettingsError) as error:
        load({"HOME": HOME, **environ}, folder)
    return error.value.problems


def test_without_any_setting_the_defaults_hold(tmp_path: Path) -> None:
    found = of(tmp_path)
    assert found.database_url == "sqlite:////home/ada/.local/share/gpufare/gpufare.db"
    assert (found.url, found.api_token, found.public_reads, found.only) == (None, None, False, ())
    assert (found.worker.polls, found.log) == (4, "info")
    assert (found.launches.hold, found.history.syncs) == (timedelta(minutes=30), timedelta(days=7))
    assert found.history.keep == timedelta(days=400)


def test_the_database_is_kept_in_the_users_data_folder(tmp_path: Path) -> None:
    assert of(tmp_path, XDG_DATA_HOME="/data").database_url == "sqlite:////data/gpufare/gpufare.db"


def test_a_relative_data_folder_is_not_used(tmp_path: Path) -> None:
    assert of(tmp_path, XDG_DATA_HOME="data").database_url.startswith("sqlite:////home/ada/")


def test_without_a_home_the_database_must_be_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"^GPUFARE_DATABASE_URL: set it; there is no home folder"):
        load({}, tmp_path)
    assert load({"GPUFARE_DATABASE_URL": "sqlite:////x.db"}, tmp_path).database_url == "sqlite:////x.db"


def test_the_file_is_the_named_one_else_the_working_folders_else_the_users(tmp_path: Path) -> None:
    work, config = tmp_path / "work", tmp_path / "config"
    for folder, polls in ((work, 2), (config / "gpufare", 3)):
        folder.mkdir(parents=True)
        (folder / "gpufare.toml").write_text(f"worker.polls = {polls}")
    (work / "other.toml").write_text("worker.polls = 4")
    user = {"XDG_CONFIG_HOME": str(config)}
    assert of(work, **user, GPUFARE_CONFIG="other.toml").worker.polls == 4
    assert of(work, **user).worker.polls == 2
    assert of(tmp_path, **user).worker.polls == 3


def test_the_users_configuration_folder_is_below_home_by_default(tmp_path: Path) -> None:
    folder = tmp_path / ".config" / "gpufare"
    folder.mkdir(parents=True)
    (folder / "gpufare.toml").write_text("worker.polls = 5")
    assert load({"HOME": str(tmp_path)}, tmp_path / "work").worker.polls == 5


def test_the_environment_wins_setting_by_setting(tmp_path: Path) -> None:
    text = """
    log = "debug"
    [providers.aws]
    regions = ["us-east-1"]
    intervals = {spot = "5m", prices = "12h"}
    [fallback]
    ap-guangzhou = "ap-nanjing"
    """
    environ = {"GPUFARE_PROVIDERS__AWS__INTERVALS__SPOT": "30s", "GPUFARE_FALLBACK__AP_GUANGZHOU": "ap-chongqing"}
    found = of_file(tmp_path, text, **environ)
    aws = found.provider("aws")
    assert (found.log, aws.regions, found.fallback) == ("debug", ("us-east-1",), {"ap-guangzhou": ("ap-chongqing",)})
    assert aws.intervals == {"spot": timedelta(seconds=30), "prices": timedelta(hours=12)}


def test_only_the_given_environment_is_read() -> None:
    code = "import settings, pathlib; print(settings.load({'HOME': '/h'}, pathlib.Path('/nowhere')).log)"
    environ = {"GPUFARE_LOG": "debug", "GPUFARE_TYPO": "1", "PYTHONPATH": str(ROOT)}
    ran = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True)  # noqa: S603
    assert ran.stdout == "info\n"


def test_importing_the_settings_loads_no_sdk() -> None:
    code = "import settings, sys; print(sorted({'boto3', 'tencentcloud', 'httpx2', 'sqlalchemy'} & set(sys.modules)))"
    environ = {"PYTHONPATH": str(ROOT)}
    ran = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True)  # noqa: S603
    assert ran.stdout == "[]\n"


@pytest.mark.parametrize("text", ["us-east-1, us-west-2,", ",us-east-1 ,, us-west-2", "us-east-1,us-west-2,us-east-1"])
def test_stray_blanks_and_commas_change_no_list(tmp_path: Path, text: str) -> None:
    """B050."""
    environ = {"GPUFARE_PROVIDERS__AWS__REGIONS": text}
    assert of(tmp_path, **environ).provider("aws").regions == ("us-east-1", "us-west-2")


@pytest.mark.parametrize("value", ['["us-east-1", " us-west-2"]', '"us-east-1, us-west-2,"'])
def test_the_file_takes_arrays_and_comma_separated_lists(tmp_path: Path, value: str) -> None:
    found = of_file(tmp_path, f"providers.aws.regions = {value}")
    assert found.provider("aws").regions == ("us-east-1", "us-west-2")


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("1s", timedelta(seconds=1)),
        ("60s", timedelta(seconds=60)),
        ("10m", timedelta(minutes=10)),
        ("24h", timedelta(hours=24)),
        (" 7d ", timedelta(days=7)),
    ],
)
def test_durations_have_a_unit(tmp_path: Path, text: str, length: timedelta) -> None:
    assert of(tmp_path, GPUFARE_LAUNCHES__HOLD=text).launches.hold == length


@pytest.mark.parametrize("text", ["60", "0s", "-5m", "1.5h", "1w", "10 m", "3651d", "999999999d", "٣m"])
def test_what_is_no_duration_is_refused(tmp_path: Path, text: str) -> None:
    [problem] = refused(tmp_path, {"GPUFARE_PROVIDERS__TENCENT__INTERVALS__STOCK": text})
    assert problem == (
        "GPUFARE_PROVIDERS__TENCENT__INTERVALS__STOCK (environment): "
        f"{text!r} is not a duration from 1s to 3650d, such as 60s, 10m, 24h or 7d."
    )


def test_a_number_without_unit_is_no_duration_in_the_file_either(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"launches\.hold \(.*gpufare\.toml\): 60 is not a duration"):
        of_file(tmp_path, "launches.hold = 60")


def test_the_region_of_a_fallback_is_lower_case_with_dashes_and_its_order_is_kept(tmp_path: Path) -> None:
    found = of(tmp_path, GPUFARE_FALLBACK__AP_GUANGZHOU="ap-nanjing,ap-chongqing")
    assert found.fallback == {"ap-guangzhou": ("ap-nanjing", "ap-chongqing")}


def test_the_region_of_a_fallback_is_verbatim_in_the_file(tmp_path: Path) -> None:
    assert of_file(tmp_path, '[fallback]\nEU_x-1 = ["US"]').fallback == {"EU_x-1": ("US",)}


def test_defaults_of_parameters_are_texts_whatever_the_file_holds(tmp_path: Path) -> None:
    text = """
    [defaults]
    currency = "CNY"
    mainland_china = true
    max_price = 12.50
    limit = 3
    provider = ["aws", "tencent"]
    """
    assert of_file(tmp_path, text).defaults == {
        "currency": "CNY",
        "mainland_china": "true",
        "max_price": "12.50",
        "limit": "3",
        "provider": "aws,tencent",
    }


@pytest.mark.parametrize("text", ["", "  ", ",", " , "])
def test_an_empty_only_leaves_every_provider_on(tmp_path: Path, text: str) -> None:
    found = of(tmp_path, GPUFARE_ONLY=text)
    assert found.only == ()
    assert [name for name in PROVIDERS if found.enabled(name)] == list(PROVIDERS)


def test_only_and_enabled_switch_providers_off_and_neither_switches_back_on(tmp_path: Path) -> None:
    environ = {
        "GPUFARE_ONLY": "aws,tencent",
        "GPUFARE_PROVIDERS__TENCENT__ENABLED": "false",
        "GPUFARE_PROVIDERS__RUNPOD__ENABLED": "true",
    }
    found = of(tmp_path, **environ)
    assert [name for name in PROVIDERS if found.enabled(name)] == ["aws"]


def test_a_blank_variable_leaves_what_the_file_says(tmp_path: Path) -> None:
    found = of_file(tmp_path, 'api_token = "hush"\nlog = "error"', GPUFARE_API_TOKEN=" ", GPUFARE_LOG="")
    assert found.api_token is not None
    assert (found.api_token.get_secret_value(), found.log) == ("hush", "error")


def test_a_blank_token_is_no_token(tmp_path: Path) -> None:
    assert of_file(tmp_path, 'api_token = ""', GPUFARE_API_TOKEN="").api_token is None


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("GPUFARE_DATABSE_URL", "GPUFARE_DATABASE_URL"),
        ("GPUFARE_TOKEN", "GPUFARE_API_TOKEN"),
        ("GPUFARE_CONFG", "GPUFARE_CONFIG"),
        ("GPUFARE_WORKERS__POLLS", "GPUFARE_WORKER__POLLS"),
        ("GPUFARE_URL__X", "GPUFARE_URL"),
        ("GPUFARE_FALLBACK_AP_GUANGZHOU", "GPUFARE_FALLBACK__<REGION>"),
        ("GPUFARE_PROVIDERS_AWS_REGIONS", "GPUFARE_PROVIDERS__AWS__REGIONS"),
        ("GPUFARE_PROVIDERS__AWZ__REGIONS", "GPUFARE_PROVIDERS__AWS__REGIONS"),
        ("GPUFARE_PROVIDERS__AWS__REGION", "GPUFARE_PROVIDERS__AWS__REGIONS"),
        ("GPUFARE_PROVIDERS__AWS__INTERVALS__STOK", "GPUFARE_PROVIDERS__AWS__INTERVALS__STOCK"),
        ("GPUFARE_PROVIDERS__AWS__ENDPOINTS__EC", "GPUFARE_PROVIDERS__AWS__ENDPOINTS__EC2"),
        ("GPUFARE_PROVIDERS__TENCENT__ENDPOINTS__EC2", "GPUFARE_PROVIDERS__TENCENT__ENDPOINTS__CVM"),
        ("GPUFARE_DEFAULTS__CURENCY", "GPUFARE_DEFAULTS__CURRENCY"),
    ],
)
@pytest.mark.parametrize("value", ["x", ""])
def test_a_variable_that_is_not_known_is_refused_with_names_like_it(
    tmp_path: Path, name: str, near: str, value: str
) -> None:
    """B050: a misspelt name is never ignored, blank or not."""
    [problem] = refused(tmp_path, {name: value})
    assert problem.startswith(f"{name} (environment): there is no such setting. Did you mean ")
    assert near in re.split(r"Did you mean | or |\? ", problem)


def test_a_refused_name_shows_what_is_allowed_there(tmp_path: Path) -> None:
    [problem] = refused(tmp_path, {"GPUFARE_PROVIDERS__GCPP__REGIONS": "x"})
    assert problem.endswith(f"Allowed there: {', '.join(name.upper() for name in sorted(PROVIDERS))}.")


def test_every_provider_with_a_bundled_price_is_polled_too() -> None:
    assert set(settings.known_providers()) == set(PROVIDERS) > {row.provider for row in snapshot_rows()}


def test_a_variable_in_small_letters_is_refused_not_ignored(tmp_path: Path) -> None:
    assert refused(tmp_path, {"gpufare_log": "debug"}) == ["gpufare_log (environment): write it GPUFARE_LOG."]


@pytest.mark.parametrize(
    ("text", "name", "near"),
    [
        ('databse_url = "x"', "databse_url", "database_url"),
        ("[provider.aws]\nregions = []", "provider.aws.regions", "providers.aws.regions"),
        ("[providers.awz]", "providers.awz", "providers.aws.regions"),
        (
            '[providers.runpod.intervals]\nscore = ""',
            "providers.runpod.intervals.score",
            "providers.runpod.intervals.scores",
        ),
        ('Log = "info"', "Log", "log"),
    ],
)
def test_a_key_that_is_not_known_is_refused_with_its_file_and_names_like_it(
    tmp_path: Path, text: str, name: str, near: str
) -> None:
    with pytest.raises(SettingsError) as error:
        of_file(tmp_path, text)
    [problem] = error.value.problems
    assert problem.startswith(f"{name} ({tmp_path / 'gpufare.toml'}): there is no such setting. Did you mean ")
    assert near in re.split(r"Did you mean | or |\? ", problem)


def test_a_site_is_no_setting_of_a_provider_with_one_site(tmp_path: Path) -> None:
    [problem] = refused(tmp_path, {"GPUFARE_PROVIDERS__AWS__SITE": "cn"})
    assert "GPUFARE_PROVIDERS__AWS__SITE (environment): there is no such setting." in problem
    assert of(tmp_path, GPUFARE_PROVIDERS__TENCENT__SITE="intl").provider("tencent").site == "intl"


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        (
            "GPUFARE_ONLY",
            "aws,runpud",
            "'runpud' is not one of alibaba, aws, azure, gcp, runpod, tencent, ucloud. Did you mean runpod?",
        ),
        ("GPUFARE_PROVIDERS__TENCENT__SITE", "int", "'int' is not one of cn, intl. Did you mean intl?"),
        ("GPUFARE_LOG", "warn", "'warn' is not one of debug, error, info, warning. Did you mean warning?"),
        ("GPUFARE_PUBLIC_READS", "yes", "'yes' is not one of false, true."),
        ("GPUFARE_PROVIDERS__AWS__ENABLED", "1", "'1' is not one of false, true."),
        ("GPUFARE_WORKER__POLLS", "0", "'0' is not a whole number from 1 to 256."),
        ("GPUFARE_WORKER__POLLS", "257", "'257' is not a whole number from 1 to 256."),
        ("GPUFARE_WORKER__POLLS", "4.5", "'4.5' is not a whole number from 1 to 256."),
        ("GPUFARE_WORKER", "4", "this is a group, not a setting. Set in it: POLLS."),
        ("GPUFARE_FX_DATE", "2026-13-01", "'2026-13-01' is not a day, such as 2026-11-28."),
        (
            "GPUFARE_FX__CNY_USDD",
            "1",
            "the name is not two different currency codes, such as CNY_USD (USD for 1 CNY).",
        ),
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_what_is_allowed(
    tmp_path: Path, name: str, value: str, reason: str
) -> None:
    assert refused(tmp_path, {name: value}) == [f"{name} (environment): {reason}"]


@pytest.mark.parametrize("rate", ["0", "0.00", "-1", "NaN", "Infinity", "1e-3", "1,5", "1_0"])
def test_a_rate_is_a_decimal_number_above_0(tmp_path: Path, rate: str) -> None:
    [problem] = refused(tmp_path, {"GPUFARE_FX__CNY_USD": rate, "GPUFARE_FX_DATE": "2026-11-28"})
    assert problem.startswith(f"GPUFARE_FX__CNY_USD (environment): {rate!r} is not an exchange rate")


def test_a_rate_is_exact_and_dated(tmp_path: Path) -> None:
    found = of(tmp_path, GPUFARE_FX__CNY_USD="0.1389", GPUFARE_FX_DATE="2026-11-28")
    assert (found.fx, found.fx_date) == ({"CNY/USD": Decimal("0.1389")}, date(2026, 11, 28))


def test_a_rate_of_the_file_is_never_a_float(tmp_path: Path) -> None:
    found = of_file(tmp_path, "fx_date = 2026-11-28\n[fx]\nCNY_USD = 0.1389")
    assert (found.fx, found.fx_date) == ({"CNY/USD": Decimal("0.1389")}, date(2026, 11, 28))


def test_a_rate_without_a_day_is_refused(tmp_path: Path) -> None:
    [problem] = refused(tmp_path, {"GPUFARE_FX__CNY_USD": "0.1389"})
    assert problem == "GPUFARE_FX_DATE: say of which day your rates are (every answer shows it)."


@pytest.mark.parametrize("days", [3, 365])
def test_a_day_of_rates_that_is_yet_to_come_is_refused(tmp_path: Path, days: int) -> None:
    day = str(datetime.now(UTC).date() + timedelta(days=days))
    rates = {"GPUFARE_FX__CNY_USD": "0.1389", "GPUFARE_FX_DATE": day}
    for environ in (rates, {"GPUFARE_FX_DATE": day}):
        [problem] = refused(tmp_path, environ)
        assert problem.startswith(f"GPUFARE_FX_DATE (environment): {day} is yet to come (today is ")


def test_a_day_of_rates_may_be_today_wherever_the_machine_stands(tmp_path: Path) -> None:
    today = datetime.now(UTC).date()
    for day in (today, today + timedelta(days=1)):  # as it is in the east, for part of a day
        assert of(tmp_path, GPUFARE_FX__CNY_USD="0.1389", GPUFARE_FX_DATE=str(day)).fx_date == day


def test_a_rate_that_follows_from_the_others_is_refused(tmp_path: Path) -> None:
    rates = {f"GPUFARE_FX__{pair}": "0.5" for pair in ("CNY_USD", "CNY_EUR", "USD_EUR")}
    [problem] = refused(tmp_path, rates | {"GPUFARE_FX_DATE": "2026-11-28"})
    assert problem.startswith("Exchange rate ")
    assert problem.endswith("follows from the other rates set by hand: leave one of them out.")


def test_a_pair_set_both_ways_is_refused(tmp_path: Path) -> None:
    environ = {"GPUFARE_FX__CNY_USD": "0.1389", "GPUFARE_FX__USD_CNY": "7.2", "GPUFARE_FX_DATE": "2026-11-28"}
    assert refused(tmp_path, environ) == [
        "GPUFARE_FX: CNY/USD and USD/CNY are the same rate both ways: set one of them."
    ]


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        ("http://127.0.0.1:5000", "http://127.0.0.1:5000"),
        ("https://cvm.example.com/", "https://cvm.example.com"),
        ("http://[::1]:5000", "http://[::1]:5000"),
    ],
)
def test_an_endpoint_is_scheme_host_and_port(tmp_path: Path, url: str, kept: str) -> None:
    environ = {"GPUFARE_PROVIDERS__TENCENT__ENDPOINTS__CVM": url}
    assert of(tmp_path, **environ).provider("tencent").endpoints == {"cvm": kept}


@pytest.mark.parametrize(
    "url",
    [
        "127.0.0.1:5000",
        "ftp://h",
        "http://",
        "http:///x",
        "http://h:0",
        "http://h:65536",
        "http://h/v2",
        "http://h?x=1",
    ],
)
def test_what_is_no_endpoint_is_refused(tmp_path: Path, url: str) -> None:
    [problem] = refused(tmp_path, {"GPUFARE_PROVIDERS__TENCENT__ENDPOINTS__CVM": url})
    assert problem.startswith("GPUFARE_PROVIDERS__TENCENT__ENDPOINTS__CVM (environment): write ")


def test_the_servers_address_may_have_a_path(tmp_path: Path) -> None:
    assert of(tmp_path, GPUFARE_URL="https://example.com/gpufare/").url == "https://example.com/gpufare"


@pytest.mark.parametrize("url", ["postgresql://h/d", "postgresql+asyncpg://h/d", "mysql://h/d", "/x.db", "sqlite:///"])
def test_only_the_two_databases_are_accepted(tmp_path: Path, url: str) -> None:
    [problem] = refused(tmp_path, {"GPUFARE_DATABASE_URL": url})
    assert problem.startswith("GPUFARE_DATABASE_URL (environment): write sqlite:///FILE or postgresql+psycopg://")


def test_all_problems_of_both_sources_are_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "gpufare.toml").write_text('log = "loud"\nnope_nope = 1')
    problems = refused(tmp_path, {"GPUFARE_WORKER__POLLS": "x", "GPUFARE_TYPO": "1"})
    assert [problem.split(" ", 1)[0] for problem in problems] == [
        "GPUFARE_TYPO",
        "nope_nope",
        "log",
        "GPUFARE_WORKER__POLLS",
    ]


def test_a_named_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    (tmp_path / "gpufare.toml").write_text("worker.polls = 2")
    [problem] = refused(tmp_path, {"GPUFARE_CONFIG": "other.toml"})
    assert problem == f"GPUFARE_CONFIG (environment): there is no file {tmp_path / 'other.toml'}: correct or unset it."


@pytest.mark.parametrize("body", [b"log = ", b"log = \xff", b"[a]\n[a]"])
def test_a_file_that_is_no_toml_is_refused_by_name(tmp_path: Path, body: bytes) -> None:
    (tmp_path / "gpufare.toml").write_bytes(body)
    [other, problem] = refused(tmp_path, {"GPUFARE_TYPO": "1"})
    assert other.startswith("GPUFARE_TYPO ")
    assert problem.startswith(f"{tmp_path / 'gpufare.toml'}: it cannot be read as a TOML file (")


def test_a_folder_in_the_files_place_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "gpufare.toml").mkdir()
    [problem] = refused(tmp_path, {})
    assert problem.startswith(f"{tmp_path / 'gpufare.toml'}: it cannot be read")


def test_nothing_shows_a_secret_of_the_settings(tmp_path: Path) -> None:
    environ = {"GPUFARE_API_TOKEN": "hush1", "GPUFARE_DATABASE_URL": "postgresql+psycopg://ada:hush2@h/d"}
    found = of(tmp_path, **environ)
    assert found.database_url == "postgresql+psycopg://ada:hush2@h/d"
    assert "hush" not in repr(found) + str(found)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("GPUFARE_DATABASE_URL", "postgres://ada:hush@h/d"),
        ("GPUFARE_URL", "https://ada:hush@h"),
        ("GPUFARE_PROVIDERS__AWS__ENDPOINTS__EC2", "http://ada:hu/hush@h"),
        ("GPUFARE_API_TOKN", "hush"),
    ],
)
def test_no_error_shows_a_secret(tmp_path: Path, name: str, value: str) -> None:
    with pytest.raises(SettingsError) as error:
        of(tmp_path, **{name: value, "GPUFARE_API_TOKEN": "hush"})
    assert name in str(error.value)
    assert "hush" not in str(error.value)
    assert error.value.__context__ is None, "pydantic's own error would bring the values back into a traceback"


def test_an_error_about_a_token_of_the_wrong_type_shows_no_token(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as error:
        of_file(tmp_path, "api_token = 424242")
    assert "api_token (" in str(error.value)
    assert "424242" not in str(error.value)


def test_a_provider_gets_its_settings_and_its_own_credentials_alone(tmp_path: Path) -> None:
    environ = {
        "TENCENTCLOUD_SECRET_ID": "id",
        "TENCENTCLOUD_SECRET_KEY": "key",
        "TENCENTCLOUD_TOKEN": "",
        "AWS_ACCESS_KEY_ID": "other",
        "RUNPOD_API_KEY": "other",
        "PATH": "/bin",
    }
    text = '[providers.tencent]\nregions = "ap-nanjing"\nsite = "cn"\nendpoints.cvm = "http://127.0.0.1:5000"'
    assert of_file(tmp_path, text).config_of("tencent", environ) == Config(
        environ={"TENCENTCLOUD_SECRET_ID": "id", "TENCENTCLOUD_SECRET_KEY": "key"},
        regions=("ap-nanjing",),
        site="cn",
        endpoints={"cvm": "http://127.0.0.1:5000"},
    )


def test_a_provider_without_settings_gets_the_defaults(tmp_path: Path) -> None:
    assert of(tmp_path).config_of("runpod", {"RUNPOD_API_KEY": "k"}) == Config(environ={"RUNPOD_API_KEY": "k"})


def test_the_table_of_providers_is_the_registrys() -> None:
    assert set(settings.OUTSIDE) == set(PROVIDERS)


def test_every_setting_has_a_meaning_and_a_default() -> None:
    rows = settings.describe()
    assert len(rows) == len({row.name for row in rows}) > 15
    assert [row for row in rows if not row.meaning.endswith(".") or not row.default] == []


def test_the_table_of_the_documents_is_the_settings() -> None:
    lines = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8").splitlines()
    table = [line for line in lines if line.startswith("| `GPUFARE_")]
    assert table == [f"| `{row.name}` | {row.default} | {row.meaning} |" for row in settings.describe()]


def test_the_documents_name_the_credentials_of_every_provider() -> None:
    text = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    assert CREDENTIALS.keys() == set(PROVIDERS)
    for name, variables in CREDENTIALS.items():
        assert f"- {name}: {', '.join(f'`{variable}`' for variable in variables)}" in text


def test_the_values_of_the_example_are_the_defaults(tmp_path: Path) -> None:
    assert of(tmp_path, GPUFARE_CONFIG=str(ROOT / "gpufare.toml.example")) == of(tmp_path)


def uncommented() -> str:
    """The example with its commented settings and groups put in force; sentences stay comments."""
    text = (ROOT / "gpufare.toml.example").read_text(encoding="utf-8")
    return re.sub(r"^# (?=\[[a-z._]+\]$|[\w-]+ = )", "", text, flags=re.MULTILINE)


def test_what_the_example_comments_out_is_accepted(tmp_path: Path) -> None:
    found = of_file(tmp_path, uncommented(), GPUFARE_FX_DATE="2026-11-28")
    assert set(found.providers) == {*PROVIDERS, "tencent_intl"}
    inland = ("ap-nanjing", "ap-chongqing", "ap-chengdu")
    chinese = dict.fromkeys(("ap-guangzhou", "ap-shanghai", "ap-beijing", "ap-shenzhen-fsi"), inland)
    assert found.fallback == {**chinese, "us-east-1": ("auto",)}
    services = {name: set(known.services) for name, known in settings.OUTSIDE.items()}
    ours = {name: set(own.endpoints) for name, own in found.providers.items()}
    assert ours == services | {"tencent_intl": services["tencent"]}


@pytest.mark.parametrize("row", settings.describe()[1:], ids=lambda row: row.name)
def test_the_example_shows_every_setting(row: settings.Setting) -> None:
    shown = {settings.PREFIX + "__".join(path).upper() for path, _ in settings._flat(tomllib.loads(uncommented()))}
    pattern = re.sub(r"<[A-Z]+>", r"[A-Z0-9_-]+", row.name)
    assert any(re.fullmatch(pattern, name) for name in shown)


@pytest.mark.parametrize("token", ["schlüssel", "two words", "tab\there"])
def test_a_token_that_no_header_can_carry_is_refused_without_being_shown(tmp_path: Path, token: str) -> None:
    with pytest.raises(SettingsError) as error:
        load({"GPUFARE_API_TOKEN": token}, tmp_path)
    assert "GPUFARE_API_TOKEN" in str(error.value)
    assert token not in str(error.value)
