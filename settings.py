"""The settings: a TOML file and the environment, read once by `load`, checked whole, and frozen.

Nothing is read at import. A name that is not known is refused, never ignored; a blank value counts as not set.
"""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, ValidationError, model_validator
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from catalog.accounts import SETTABLE, is_credential, kind_of
from catalog.durations import written
from catalog.fx import Rates
from catalog.parameters import PARAMETERS
from collectors.base import Config
from collectors.registry import PROVIDERS
from setting_values import (
    Attempts,
    Boolean,
    DatabaseUrl,
    Duration,
    Endpoint,
    Host,
    Names,
    Pair,
    PastDay,
    Polls,
    Port,
    Rate,
    Secret,
    Text,
    Timeout,
    Token,
    Url,
    names,
    one_of,
)

PREFIX = "GPUFARE_"
CONFIG = "GPUFARE_CONFIG"
FEEDS = ("machines", "prices", "spot", "stock", "scores", "places")
LOG_LEVELS = ("debug", "info", "warning", "error")


class Outside(NamedTuple):
    """A provider as the settings know it: services, and settings that only some have."""

    services: tuple[str, ...]
    special: tuple[str, ...] = ()


OUTSIDE = {
    "alibaba": Outside(("ecs",), ("site",)),
    "aws": Outside(("ec2", "pricing", "price_list", "spot_advisor"), ("scores", "price_source")),
    "azure": Outside(("management", "retail", "login"), ("site", "scores")),
    "gcp": Outside(("compute", "billing"), ("scores",)),
    "runpod": Outside(("api",)),
    "tencent": Outside(("cvm", "region"), ("site",)),
    "ucloud": Outside(("api",)),
}
"""By the names of `collectors.registry.PROVIDERS`."""
SPECIAL = {name for known in OUTSIDE.values() for name in known.special}


ACCOUNT = re.compile(r"[a-z0-9]+_[a-z0-9]+")
"""The name of another account of a provider: `tencent_intl`."""


def known_providers() -> tuple[str, ...]:
    """Every provider that this version polls."""
    return tuple(sorted(PROVIDERS))


def is_account(name: str) -> bool:
    """Whether it can be the name of another account of a provider that is polled."""
    return bool(ACCOUNT.fullmatch(name)) and kind_of(name) in PROVIDERS


class SettingsError(Exception):
    """The settings cannot be used. `problems`: a sentence each, saying which, where from, what is wrong, what to do."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


def _providers(value: object) -> tuple[str, ...]:
    return tuple(name if is_account(name) else one_of(name, known_providers()) for name in names(value))


def _log_level(value: object) -> str:
    return one_of(str(value).lower(), LOG_LEVELS)


def _site(value: object) -> str:
    return one_of(str(value), ("cn", "intl"))


def _price_source(value: object) -> str:
    return one_of(str(value), ("list", "api"))


def _security(value: object) -> str:
    return one_of(str(value), ("starttls", "tls", "none"))


_STRICT = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class ProviderSettings(BaseModel):
    """One provider's settings."""

    model_config = _STRICT

    enabled: Boolean | None = Field(
        default=None,
        description="`false` switches it off.",
        json_schema_extra={"default": "true where its credentials are found or it needs none"},
    )
    regions: Names = Field(
        default=(),
        description="The regions to poll.",
        json_schema_extra={"default": "all that the account has; AWS price list without credentials: `us-east-1`"},
    )
    intervals: Mapping[str, Duration] = Field(
        default_factory=dict,
        description="How often to poll a feed, from `1s`. With a longer interval its facts count as fresh for one "
        f"interval more than by themselves. Feeds: {', '.join(FEEDS)}.",
        json_schema_extra={"key": "<FEED>", "default": "each feed's own"},
    )
    site: Annotated[Literal["cn", "intl"], PlainValidator(_site)] | None = Field(
        default=None,
        description="tencent, alibaba: `cn` or `intl`. Decides the currency; without it the provider is off. "
        "azure: `cn` for the cloud that 21Vianet runs in China.",
    )
    scores: Boolean = Field(
        default=False,
        description="aws, azure, gcp: ask how likely spot machines are to be had. Shown, never stock; it needs a right "
        "and a budget of calls.",
    )
    price_source: Annotated[Literal["list", "api"], PlainValidator(_price_source)] = Field(
        default="list",
        description="aws: prices from the public price list, or from the query API `pricing`, which needs credentials.",
    )
    credentials: Mapping[str, Secret] = Field(
        default_factory=dict,
        description="A variable of its credentials, by the name that it has in the environment, for another account: "
        "`GPUFARE_PROVIDERS__TENCENT_INTL__CREDENTIALS__TENCENTCLOUD_SECRET_ID`.",
        json_schema_extra={"key": "<VARIABLE>", "default": "the environment's own, for the first account alone"},
    )
    endpoints: Mapping[str, Endpoint] = Field(
        default_factory=dict,
        description="Scheme, host and port of a service, to use instead of the public one. Services: "
        + "; ".join(f"{name} {', '.join(known.services)}" for name, known in OUTSIDE.items())
        + ".",
        json_schema_extra={"key": "<SERVICE>", "default": "the provider's own"},
    )


class Launches(BaseModel):
    """What reported launches do."""

    model_config = _STRICT

    hold: Duration = Field(
        default=timedelta(minutes=30), description="How long a launch's capacity error makes an offer out."
    )


class Worker(BaseModel):
    """How a worker polls."""

    model_config = _STRICT

    polls: Polls = Field(
        default=4,
        description="Polls at once of each provider, 1 to 256; its feeds that ask about one machine at a time have as "
        "many besides.",
    )


class History(BaseModel):
    """What is kept."""

    model_config = _STRICT

    syncs: Duration = Field(default=timedelta(days=7), description="How long past polls are kept.")
    keep: Duration = Field(default=timedelta(days=400), description="How long the history of prices and stock is kept.")


class Webhooks(BaseModel):
    """How watches tell their targets, by HTTP and by e-mail."""

    model_config = _STRICT

    allow_private: Boolean = Field(
        default=False,
        description="`true`: targets may lie on this machine and in its network too, not on the public internet alone.",
    )
    timeout: Timeout = Field(
        default=timedelta(seconds=10), description="All that one attempt to deliver may take, at most `5m`."
    )
    attempts: Attempts = Field(
        default=20, description="How often a delivery is tried before it is dead, 1 to 100; `retry` begins anew."
    )
    first_pause: Duration = Field(
        default=timedelta(seconds=5),
        description="The pause after the first attempt that failed; each is twice the one before, give or take 20 %.",
    )
    longest_pause: Duration = Field(
        default=timedelta(hours=1),
        description="What pauses grow to. One that a receiver asks for is kept even if longer, up to an hour.",
    )
    keep: Duration = Field(default=timedelta(days=30), description="How long deliveries that have ended are kept.")
    page_url: Url | None = Field(
        default=None, description="Where people reach this installation's page: messages link to it."
    )


class Smtp(BaseModel):
    """Who takes e-mail."""

    model_config = _STRICT

    host: Host | None = Field(
        default=None, description="The mail server for e-mail targets; unset, they cannot be told anything."
    )
    port: Port | None = Field(
        default=None,
        description="Its port.",
        json_schema_extra={"default": "587; with `tls` 465, with `none` 25"},
    )
    security: Annotated[Literal["starttls", "tls", "none"], PlainValidator(_security)] = Field(
        default="starttls",
        description="`starttls`; `tls` from the first byte; `none`: all can read it, so no password is sent.",
    )
    user: Text | None = Field(default=None, description="Whom to log in as; unset, nobody logs in.")
    password: Secret | None = Field(default=None, description="The user's password.")
    sender: Text | None = Field(
        default=None, description="Whom mails are from, such as `gpufare <gpufare@example.com>`; needed beside `HOST`."
    )


class Settings(BaseSettings):
    """All settings. Made by `load`; made directly, it takes its arguments alone and reads no environment."""

    model_config = SettingsConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, case_sensitive=True)

    database_url: DatabaseUrl = Field(
        repr=False,
        description="`sqlite:///FILE` or `postgresql+psycopg://USER:PASSWORD@HOST/DATABASE`, with `@` written `%40` in "
        "user and password: one with more than one `@` is refused.",
        json_schema_extra={"default": "SQLite in the user's data folder (`~/.local/share/gpufare/gpufare.db`)"},
    )
    url: Url | None = Field(
        default=None, description="The server that reading commands ask; unset, they read the database."
    )
    api_token: Token | None = Field(
        default=None,
        description="What writes must carry, and reads off loopback; unset, the server listens on loopback only.",
    )
    public_reads: Boolean = Field(default=False, description="`true`: reads need no token anywhere.")
    watches_file: Text | None = Field(
        default=None,
        description="A file of targets and watches that `serve` and `api` apply as they start; the secrets that it "
        "names by variables are read then.",
    )
    fx_date: PastDay | None = Field(
        default=None,
        description="The day of the exchange rates set by hand, such as `2026-11-28`; needed beside any of them, "
        "and none that is yet to come.",
    )
    fx_refresh: Boolean = Field(
        default=True,
        description="Whether the worker fetches the European Central Bank's reference rates once a day. `false`: those "
        "that come with the product, even where newer ones were fetched before.",
    )
    fx_endpoint: Endpoint | None = Field(
        default=None,
        description="Scheme, host and port to fetch them from, instead of `https://www.ecb.europa.eu`.",
    )
    log: Annotated[str, PlainValidator(_log_level)] = Field(
        default="info", description=f"How much is logged: {', '.join(LOG_LEVELS)}."
    )
    only: Annotated[tuple[str, ...], PlainValidator(_providers)] = Field(
        default=(), description="The only providers to use; empty is unset."
    )
    defaults: Mapping[str, Text] = Field(
        default_factory=dict,
        description="Default of any parameter of `/cheapest` and `/offers`.",
        json_schema_extra={"key": "<PARAMETER>"},
    )
    fallback: Mapping[str, Names] = Field(
        default_factory=dict,
        description="Regions to fall back on, in order; `auto` stands for the others nearby. In the environment `-` of "
        "the region is written `_`.",
        json_schema_extra={"key": "<REGION>"},
    )
    fx: Mapping[Pair, Rate] = Field(
        default_factory=dict,
        description="An exchange rate set by hand: `CNY_USD` is USD for 1 CNY, and serves both directions.",
        json_schema_extra={"key": "<PAIR>", "default": "the European Central Bank's"},
    )
    worker: Worker = Worker()
    launches: Launches = Launches()
    history: History = History()
    webhooks: Webhooks = Webhooks()
    smtp: Smtp = Smtp()
    providers: Mapping[str, ProviderSettings] = Field(default_factory=dict)

    @classmethod
    def settings_customise_sources(cls, *_: Any, **sources: Any) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only the arguments: `load` names its sources itself."""
        return (sources["init_settings"],)

    @model_validator(mode="after")
    def _dated_rates_one_a_pair(self) -> "Settings":
        twice = [pair for pair in self.fx if f"{pair[4:]}/{pair[:3]}" in self.fx]
        if twice:
            raise ValueError(f"{PREFIX}FX: {' and '.join(sorted(twice))} are the same rate both ways: set one of them.")
        if self.fx and self.fx_date is None:
            raise ValueError(f"{PREFIX}FX_DATE: say of which day your rates are (every answer shows it).")
        own = Rates([])
        for pair, rate in self.fx.items():  # refuses rates that contradict each other
            own = own.with_override(pair, rate, self.fx_date or date.min, "settings")
        return self

    def provider(self, name: str) -> ProviderSettings:
        """The provider's settings; the defaults where none are set."""
        return self.providers.get(name, ProviderSettings())

    def enabled(self, name: str) -> bool:
        """Whether the settings leave the provider on. Whether it has what it needs, it says itself."""
        return (not self.only or name in self.only) and self.provider(name).enabled is not False

    def names(self) -> tuple[str, ...]:
        """Every provider, and every other account that the settings speak of."""
        return tuple(sorted({*known_providers(), *filter(is_account, (*self.providers, *self.only))}))

    def config_of(self, name: str, environ: Mapping[str, str]) -> Config:
        """What the provider is built from, with no variable of `environ` but its own credentials'.

        An account beside the provider's first takes none of them: its credentials are those of its settings alone. A
        blank variable counts as not set. Raises KeyError for a provider that is not in `OUTSIDE`.
        """
        own = self.provider(name)
        given = {variable.upper(): value.get_secret_value() for variable, value in own.credentials.items()}
        found = {**({} if is_account(name) else environ), **given}
        return Config(
            environ={
                variable: value for variable, value in found.items() if value.strip() and is_credential(name, variable)
            },
            beside=is_account(name),
            regions=own.regions,
            site=own.site,
            endpoints=own.endpoints,
            scores=own.scores,
            price_source=own.price_source,
        )


_Path = tuple[str, ...]
"""A setting's name, by its parts: `("providers", "aws", "regions")`."""

_GROUPS: Mapping[str, type[BaseModel]] = {
    "worker": Worker,
    "launches": Launches,
    "history": History,
    "webhooks": Webhooks,
    "smtp": Smtp,
}


def _below(path: _Path) -> tuple[str, ...]:
    """The names that may stand below a group of settings; none below a setting. `<region>` stands for any name."""
    match path:
        case ():
            return tuple(Settings.model_fields)
        case ("providers",):
            return known_providers()
        case ("providers", name):
            foreign = SPECIAL - {*OUTSIDE[kind_of(name)].special}
            return tuple(key for key in ProviderSettings.model_fields if key not in foreign)
        case ("providers", name, "credentials"):
            return tuple(map(str.lower, SETTABLE[kind_of(name)]))
        case ("providers", _, "intervals"):
            return FEEDS
        case ("providers", name, "endpoints"):
            return OUTSIDE[kind_of(name)].services
        case ("defaults",):
            return tuple(PARAMETERS)
        case ("fallback",):
            return ("<region>",)
        case ("fx",):
            return ("<pair>",)
        case (group,) if group in _GROUPS:
            return tuple(_GROUPS[group].model_fields)
        case _:
            return ()


def _every_setting(path: _Path = ()) -> Iterator[_Path]:
    names = _below(path)
    if not names:
        yield path
    for name in names:
        yield from _every_setting((*path, name))


def _like(path: _Path, also: Iterable[_Path]) -> list[_Path]:
    """At most three settings that a name which is none may stand for; where it names an account, of that one alone."""
    of = path[:2] if _is_of_account(path) else ()
    every = {"__".join(setting): setting for setting in (*_every_setting(of), *also)}
    own = {setting[-1]: setting for setting in every.values()} if of else {}
    found = [own[name] for name in get_close_matches(path[-1], own, n=1, cutoff=0.55)]
    found += [every[name] for name in get_close_matches("__".join(path), every, n=3, cutoff=0.55)]
    return list(dict.fromkeys(found))[:3]


def _is_of_account(path: _Path) -> bool:
    return len(path) > 2 and path[0] == "providers" and (path[1] in PROVIDERS or is_account(path[1]))


@dataclass(frozen=True)
class _Source:
    """One place that settings come from: the environment, or a file."""

    file: Path | None
    given: Mapping[_Path, object]
    faults: list[str] = field(default_factory=list)
    """What is wrong beside the names."""

    def name(self, path: _Path) -> str:
        """The setting as this source writes it."""
        return PREFIX + "__".join(map(self.spelt, path)) if self.file is None else ".".join(path)

    def spelt(self, part: str) -> str:
        """One part of a setting's name as this source writes it."""
        return part.replace("-", "_").upper() if self.file is None else part

    def where(self, path: _Path) -> str:
        return f"{self.name(path)} ({self.file or 'environment'})"

    def problems(self) -> list[str]:
        """A sentence for each fault, and for each name that is not a setting's."""
        found = (self._problem(path, value) for path, value in self.given.items())
        return self.faults + [problem for problem in found if problem]

    def values(self) -> dict[str, object]:
        """What is set, nested, without what `problems` speaks of and without blanks."""
        good = {path: value for path, value in self.given.items() if not self._problem(path, value)}
        return _nested({path: value for path, value in good.items() if value not in ("", {})})

    def _problem(self, path: _Path, value: object) -> str | None:
        for depth, part in enumerate(path):
            names = _below(path[:depth])
            if path[:depth] == ("providers",) and is_account(part):
                continue
            if part not in names and not (part and names and names[0].startswith("<")):
                return f"{self.where(path)}: there is no such setting. {self._instead(path, names)}"
        names = _below(path)
        if names and not isinstance(value, dict):
            inside = ", ".join(map(self.spelt, names))
            return f"{self.where(path)}: this is a group, not a setting. Set in it: {inside}."
        if not names and isinstance(value, dict):
            return f"{self.where(path)}: this takes one value, not a table."
        return None

    def _instead(self, path: _Path, names: tuple[str, ...]) -> str:
        near = [self.name(one) for one in _like(path, [("config",)] if self.file is None else [])]
        hint = f"Did you mean {' or '.join(near)}? " if near else ""
        return f"{hint}Allowed there: {', '.join(map(self.spelt, names)) or 'no further name'}."


def _is_credential(path: _Path) -> bool:
    return len(path) == 4 and (path[0], path[2]) == ("providers", "credentials")


def _nested(flat: Mapping[_Path, object]) -> dict[str, object]:
    groups: dict[str, dict[_Path, object]] = {}
    for (head, *rest), value in flat.items():
        if rest:
            groups.setdefault(head, {})[tuple(rest)] = value
    leaves = {path[0]: value for path, value in flat.items() if len(path) == 1}
    return leaves | {head: _nested(below) for head, below in groups.items()}


def _environment(environ: Mapping[str, str]) -> _Source:
    ours = {name: value for name, value in environ.items() if name.upper().startswith(PREFIX) and name != CONFIG}
    misspelt = [f"{name} (environment): write it {name.upper()}." for name in ours if name != name.upper()]
    given = {_environ_path(name): value.strip() for name, value in ours.items() if name == name.upper()}
    return _Source(None, given, misspelt)


def _environ_path(name: str) -> _Path:
    head, *rest = name.removeprefix(PREFIX).lower().split("__")
    if head == "fallback":
        rest = [part.replace("_", "-") for part in rest]
    if head == "fx":  # currency codes are written in capitals, in the file too
        rest = [part.upper() for part in rest]
    return (head, *rest)


def _file(environ: Mapping[str, str], folder: Path) -> _Source:
    """The first file that is there. Its fault, where GPUFARE_CONFIG names none or it cannot be read."""
    named = environ.get(CONFIG, "").strip()
    home = _user_folder(environ, "XDG_CONFIG_HOME", ".config")
    usual = [folder / "gpufare.toml", *([home / "gpufare.toml"] if home else [])]
    for file in [folder / named] if named else usual:
        try:
            table = tomllib.loads(file.read_bytes().decode(), parse_float=Decimal)
        except FileNotFoundError:
            continue
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            return _Source(file, {}, [f"{file}: it cannot be read as a TOML file ({reason}): correct or remove it."])
        # Variables of credentials are written in capitals in the file, and mean the same as in the environment.
        return _Source(
            file,
            {
                (*path[:3], *map(str.lower, path[3:])) if _is_credential(path) else path: value
                for path, value in _flat(table)
            },
        )
    fault = f"{CONFIG} (environment): there is no file {folder / named}: correct or unset it."
    return _Source(usual[0], {}, [fault] if named else [])


def _flat(table: Mapping[str, object], above: _Path = ()) -> Iterator[tuple[_Path, object]]:
    for key, value in table.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, (*above, key))
        else:
            yield (*above, key), value.strip() if isinstance(value, str) else value


def _user_folder(environ: Mapping[str, str], variable: str, below_home: str) -> Path | None:
    """gpufare's folder among the user's; None without a home. A relative XDG variable is not valid and not used."""
    named, home = environ.get(variable, ""), environ.get("HOME", "")
    if Path(named).is_absolute():
        return Path(named) / "gpufare"
    return Path(home) / below_home / "gpufare" if Path(home).is_absolute() else None


def _usual(environ: Mapping[str, str]) -> dict[str, object]:
    """The one default that depends on the user."""
    data = _user_folder(environ, "XDG_DATA_HOME", ".local/share")
    return {"database_url": f"sqlite:///{data / 'gpufare.db'}"} if data else {}


def load(environ: Mapping[str, str], folder: Path) -> Settings:
    """The settings of this environment and of the file that it names, or of `folder`'s, or of the user's own.

    The environment wins, setting by setting. Raises SettingsError with every problem found; it repeats no secret.
    """
    sources = (_environment(environ), _file(environ, folder))
    problems = [problem for source in sources for problem in source.problems()]
    values = [*(source.values() for source in sources), _usual(environ)]
    by_rank = tuple(InitSettingsSource(Settings, tree) for tree in values)
    try:
        settings = Settings(_build_sources=(by_rank, {}))  # type: ignore[call-arg] # mypy sees the fields alone
    except ValidationError as error:
        problems += [_sentence(detail, sources) for detail in error.errors(include_input=False)]
    else:
        if not problems:
            return settings
    raise SettingsError(problems)


def _sentence(detail: ErrorDetails, sources: Iterable[_Source]) -> str:
    path = tuple(str(part) for part in detail["loc"] if part != "[key]")
    reason = str(detail.get("ctx", {}).get("error", detail["msg"]))
    if detail["type"] == "missing":
        return f"{PREFIX}{'__'.join(path).upper()}: set it; there is no home folder (HOME) to keep a database in."
    where = next((source.where(path) for source in sources if path in source.given), None)
    return f"{where}: {reason}" if where else reason


class Setting(NamedTuple):
    """A row of the table of settings: its environment variable, its default in words, what it means."""

    name: str
    default: str
    meaning: str


def describe() -> list[Setting]:
    """Every setting, in the order of this file. The documents and the example are checked against it."""
    file = Setting(CONFIG, "`gpufare.toml` in the working folder, else in `~/.config/gpufare`", "The settings file.")
    return [file, *_rows(Settings, PREFIX)]


def _rows(model: type[BaseModel], above: str) -> Iterator[Setting]:
    for key, info in model.model_fields.items():
        name = above + key.upper()
        extra = info.json_schema_extra if isinstance(info.json_schema_extra, dict) else {}
        if key == "providers":
            yield from _rows(ProviderSettings, f"{name}__<NAME>__")
        elif key in _GROUPS:
            yield from _rows(_GROUPS[key], f"{name}__")
        else:
            below = f"__{extra['key']}" if "key" in extra else ""
            yield Setting(name + below, str(extra.get("default", _shown(info.default))), info.description or "")


def _shown(default: object) -> str:
    """A default in the words of the environment."""
    if isinstance(default, timedelta):
        return written(default)
    return str(default).lower() if isinstance(default, bool | int | str) else "unset"
