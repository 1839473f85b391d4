"""Building the parts from the settings: database, providers, polls, server."""

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import typer

from commands.output import complain

if TYPE_CHECKING:
    from fastapi import FastAPI
    from sqlalchemy import Engine
    from sqlalchemy.engine import ExceptionContext

    from alerts.mail import MailServer
    from api.config import ApiConfig
    from catalog.fx import Rates
    from scheduler.exchange import Exchange
    from scheduler.plan import Configured
    from scheduler.poll import Polls
    from scheduler.sending import Sending
    from scheduler.watching import Watching
    from settings import Settings

USAGE = 2
_MAIL_PORTS = {"starttls": 587, "tls": 465, "none": 25}


def refuse(sentence: str) -> NoReturn:
    """End the command for a mistake that a person can mend: the sentence on stderr, exit status 2."""
    complain(sentence)
    raise typer.Exit(USAGE)


def settings() -> "Settings":
    """The settings of this working folder and environment. Logging follows them from here on."""
    from commands.logs import log_to_stderr
    from settings import SettingsError, load

    try:
        loaded = load(os.environ, _working_folder())
    except SettingsError as error:
        refuse_settings(error.problems)
    log_to_stderr(loaded.log)
    return loaded


def _working_folder() -> Path:
    """The folder that the settings file, and all else without a leading `/`, is looked for in."""
    try:
        return Path.cwd()
    except OSError as error:
        refuse(f"the working folder cannot be used ({error.strerror}): was it deleted? change to one that is there")


def refuse_settings(problems: Iterable[str]) -> NoReturn:
    """End the command, naming every setting that cannot be used."""
    refuse("\n  ".join(["the settings cannot be used", *problems]))


def refuse_database(where: str, why: str) -> NoReturn:
    """End the command since its database cannot be read or written."""
    from commands.advising import database_advice
    from store.engine import unusable
    from store.sqlite_file import plainly

    said = " ".join(why.split())
    refuse(unusable(where, plainly(said), database_advice(where, said)))


def database(loaded: "Settings") -> "Engine":
    """The database, brought to this version, with the bundled snapshot in it; a new one with the providers too."""
    from scheduler import plan
    from store.clock import clock_of
    from store.snapshot import load_bundled
    from store.status import provider_statuses

    engine = opened(loaded)
    migrate(engine)
    load_bundled(engine)
    now = clock_of(engine)()
    if not provider_statuses(engine, now):
        plan.plan(engine, providers(loaded), now)
    return engine


def opened(loaded: "Settings") -> "Engine":
    """The database that the settings name, as it stands."""
    from store.engine import DatabaseError, open_engine

    try:
        engine = open_engine(loaded.database_url)
    except DatabaseError as error:
        refuse(str(error))
    _name_in_errors(engine)
    return engine


def migrate(engine: "Engine") -> None:
    """Bring the tables of a database to this version."""
    from store import engine as store

    try:
        store.migrate(engine)
    except store.DatabaseError as error:
        refuse(str(error))


def _name_in_errors(engine: "Engine") -> None:
    """Note on each error of the database which one it is: `commands.ending` tells it."""
    from sqlalchemy import event

    from store.engine import shown

    @event.listens_for(engine, "handle_error")
    def note(context: "ExceptionContext") -> None:
        if context.sqlalchemy_exception is not None:
            context.sqlalchemy_exception.add_note(shown(engine))


def providers(loaded: "Settings", names: Iterable[str] = ()) -> "list[Configured]":
    """The providers that the settings leave on, or those of them that are named. Any other name is refused."""
    known = loaded.names()
    wanted = list(dict.fromkeys(names)) or [name for name in known if loaded.enabled(name)]
    for name in wanted:
        if name not in known:
            refuse(f"{name} is not a provider; there are {', '.join(known)}")
        if not loaded.enabled(name):
            refuse(f"{name} is switched off by {switch(loaded, name)}; change that, or leave {name} out")
    return [_configured(loaded, name) for name in wanted]


def switch(loaded: "Settings", name: str) -> str:
    """The setting that switches a provider off."""
    return f"GPUFARE_PROVIDERS__{name.upper()}__ENABLED" if loaded.provider(name).enabled is False else "GPUFARE_ONLY"


def _configured(loaded: "Settings", name: str) -> "Configured":
    from collectors.registry import provider
    from scheduler.plan import Configured

    config = loaded.config_of(name, os.environ)
    return Configured(provider(name, config), config, loaded.provider(name).intervals)


def polls(engine: "Engine") -> "Polls":
    """What polls need."""
    from scheduler.poll import Polls
    from store.clock import clock_of

    return Polls(engine, clock_of(engine))


def exchange(loaded: "Settings", polls: "Polls") -> "Exchange | None":
    """What fetches the exchange rates; None where the settings switch that off."""
    from scheduler.exchange import Exchange

    return Exchange(polls.engine, polls.clock, loaded.fx_endpoint) if loaded.fx_refresh else None


def sending(loaded: "Settings", polls: "Polls") -> "Sending":
    """What tells targets. Refuses a mail server that cannot be used as it is given."""
    from scheduler.attempts import Pauses, SendingRules
    from scheduler.sending import Sending

    own = loaded.webhooks
    rules = SendingRules(
        allow_private=own.allow_private,
        timeout=own.timeout,
        attempts=own.attempts,
        pauses=Pauses(own.first_pause, own.longest_pause),
        keep=own.keep,
        page_url=own.page_url,
        mail=mail_server(loaded),
    )
    return Sending(polls.engine, polls.clock, rules)


def watching(loaded: "Settings", polls: "Polls") -> "Watching":
    """What evaluates the watches, over the offers as a server here would answer them."""
    from api.answers import offer_json
    from api.board import Board
    from scheduler.evaluator import Evaluator
    from scheduler.market import Rules
    from scheduler.watching import Watching

    config = replace(_api_config(loaded, "127.0.0.1"), clock=polls.clock)
    rules = Rules(lambda: Board(polls.engine, config, spares=False), offer_json, loaded.defaults)
    return Watching(Evaluator(polls.engine, polls.clock, rules))


def mail_server(loaded: "Settings") -> "MailServer | None":
    """Who takes e-mail; None where the settings name nobody."""
    from alerts.mail import MailServer

    own = loaded.smtp
    if own.host is None:
        return None
    password = own.password.get_secret_value() if own.password else None
    port = own.port or _MAIL_PORTS[own.security]
    try:
        return MailServer(own.host, port, own.security, own.user, password, own.sender or "")
    except ValueError as error:
        refuse_settings([f"GPUFARE_SMTP: {error}"])


def rates(loaded: "Settings") -> "Rates":
    """The exchange rates: those that are shipped, and over them those set by hand with their day."""
    from catalog.fx import ecb_rates

    found = ecb_rates()
    for pair, rate in loaded.fx.items():
        if loaded.fx_date is not None:
            found = found.with_override(pair, rate, loaded.fx_date, "settings")
    return found


def server(loaded: "Settings", host: str = "127.0.0.1") -> "FastAPI":
    """The server over the database, listening there, its offers read. Refuses settings that no question could use."""
    from api.app import create_app
    from api.config import ListenError, check_listen
    from commands import checking
    from store.clock import clock_of
    from store.engine import shown

    config = _api_config(loaded, host)
    try:
        check_listen(config.host, config.token)
    except ListenError as error:
        refuse(str(error))
    engine = database(loaded)
    config = replace(config, clock=clock_of(engine))
    app = create_app(engine, config)
    app.state.board.refresh(config.clock())
    if app.state.board.view.error:  # an empty board would answer that nothing is offered
        refuse_database(shown(engine), f"{app.state.board.view.error}, see above")
    world = app.state.board.view.world
    if found := checking.problems(loaded, world):
        refuse_settings(found)
    checking.warn_of_regions(loaded, world)
    return app


def watching_server(loaded: "Settings", host: str) -> "FastAPI":
    """The same, with the targets and watches of the file that the settings name."""
    from commands import watch_file

    app = server(loaded, host)
    if loaded.watches_file is not None:
        watch_file.apply_at_start(app, loaded.watches_file)
    return app


def _partitions(loaded: "Settings") -> "dict[str, str | None]":
    """The partition that the credentials of each AWS account are of, as its polls decide it."""
    from catalog.accounts import kind_of
    from collectors.aws_ec2 import partition_of

    accounts = [name for name in loaded.names() if kind_of(name) == "aws" and loaded.enabled(name)]
    return {name: partition_of(loaded.config_of(name, os.environ)) for name in accounts}


def _api_config(loaded: "Settings", host: str) -> "ApiConfig":
    from importlib.metadata import version

    from api.config import ApiConfig

    return ApiConfig(
        rates=rates(loaded),
        fetched_rates=loaded.fx_refresh,
        host=host,
        token=loaded.api_token.get_secret_value() if loaded.api_token else None,
        public_reads=loaded.public_reads,
        providers=frozenset(filter(loaded.enabled, loaded.names())),
        sites={name: site for name in loaded.names() if (site := loaded.provider(name).site)},
        partitions=_partitions(loaded),
        defaults=loaded.defaults,
        fallback=loaded.fallback,
        launch_hold=loaded.launches.hold,
        version=version("gpufare"),
        sends_mail=loaded.smtp.host is not None,
        allow_private=loaded.webhooks.allow_private,
    )
