"""Dockerfile, .dockerignore and docker-compose.yml, as far as a machine without a Docker engine can prove them."""

import json
import os
import re
import shlex
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Mapping
from datetime import timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml  # type: ignore[import-untyped] # comes with uvicorn, its types do not
from psycopg.pq import Conninfo
from sqlalchemy import make_url

from cli import app
from commands.listening import GRACE_S
from commands.serving import CHILD_PATIENCE_S
from scheduler.worker import STOP_PATIENCE
from settings import load
from tests.support.canned import Canned, canned
from tests.support.commands import COMMAND, PATIENCE_S, environment, serving, until

ROOT = Path(__file__).parent.parent
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PACKAGES: list[str] = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))[
    "services"
]
OURS = {name: service for name, service in SERVICES.items() if "build" in service}
SECRETS = {"POSTGRES_PASSWORD": "p@:/ %25'x", "GPUFARE_API_TOKEN": "t0ken"}
DOCKER_PATIENCE = timedelta(seconds=10)
"""How long `docker stop` waits before it kills."""


def _instructions() -> list[tuple[str, str]]:
    """The Dockerfile's instructions, comments taken out and lines that go on joined."""
    lines = [line for line in DOCKERFILE.splitlines() if not line.lstrip().startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    pairs = [line.split(maxsplit=1) for line in joined.splitlines() if line.strip()]
    return [(name, " ".join(value.split())) for name, value in pairs]


def _values(name: str) -> list[str]:
    found = [value for instruction, value in _instructions() if instruction == name]
    assert found, f"the Dockerfile has no {name}"
    return found


def _array(name: str) -> list[str]:
    """The value of an instruction that is written as a JSON array, flags before it left out."""
    (value,) = _values(name)
    words: list[str] = json.loads(value[value.index("[") :])
    return words


# --- what the image is built from -------------------------------------------------------------------------------------


def _patterns() -> list[str]:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def _ignored(path: str) -> bool:
    """Whether a file is kept from the builder: the last pattern that fits it, or a folder above it, decides."""
    parts = Path(path).parts
    names = ["/".join(parts[: depth + 1]) for depth in range(len(parts))]
    ignored = False
    for pattern in _patterns():
        bare = pattern.removeprefix("!")
        fits = any(_fits(name, bare) for name in names)
        ignored = pattern == bare if fits else ignored
    return ignored


def _fits(name: str, pattern: str) -> bool:
    if pattern.startswith("**/"):
        return fnmatchcase(name.rpartition("/")[2], pattern.removeprefix("**/"))
    return name.count("/") == pattern.count("/") and fnmatchcase(name, pattern)


def _sources() -> list[str]:
    """What is or will be committed, as git sees it."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)  # noqa: S603
    return [name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


def _of_the_wheel(path: str) -> bool:
    return path.partition("/")[0] in PACKAGES


def test_the_builder_gets_what_the_wheel_is_built_from_and_nothing_else() -> None:
    given = {path for path in _sources() if not _ignored(path)}
    wanted = {path for path in _sources() if _of_the_wheel(path)}
    assert given == wanted | {"LICENSE", "README.md", "pyproject.toml", "requirements.lock"}


@pytest.mark.parametrize(
    "path",
    [
        ".env",
        "credentials.env",
        "gpufare.toml",
        ".git/config",
        ".venv/bin/python",
        "tests/test_cli.py",
        "gpufare.db",
        "store/x.db-wal",
        "catalog/__pycache__/spec.cpython-311.pyc",
    ],
)
def test_the_builder_never_gets(path: str) -> None:
    assert _ignored(path)


def test_every_source_of_a_copy_is_there_and_is_given_to_the_builder() -> None:
    stages = re.findall(r" AS (\w+)", DOCKERFILE)
    copies = _values("COPY")
    assert len(copies) == 3
    for words in map(shlex.split, copies):
        if words[0].startswith("--from="):
            assert words[0].removeprefix("--from=") in stages
            continue
        for source in words[:-1]:
            assert (ROOT / source).exists()
            assert source == "." or not _ignored(source)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project, installed by the Dockerfile's own command from what the builder is given."""
    context, target = tmp_path_factory.mktemp("context"), tmp_path_factory.mktemp("site-packages")
    for path in _sources():
        if not _ignored(path):
            (context / path).parent.mkdir(parents=True, exist_ok=True)
            (context / path).write_bytes((ROOT / path).read_bytes())
    (_, command) = _installs(" && ".join(_values("RUN")))
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", *shlex.split(command), "--target", str(target)]
    subprocess.run(pip, cwd=context, check=True, capture_output=True)  # noqa: S603
    return target


def test_all_of_the_project_is_installed_its_data_too(installed: Path) -> None:
    wanted = {path for path in _sources() if _of_the_wheel(path)}
    assert {path for path in wanted if path.endswith((".csv", ".toml", ".mako"))}
    for path in wanted:
        assert (installed / path).read_bytes() == (ROOT / path).read_bytes(), path


def test_what_is_installed_runs_outside_the_checkout(installed: Path, tmp_path: Path) -> None:
    environ = environment(tmp_path, PYTHONPATH=str(installed))
    where = [sys.executable, "-P", "-c", "import cli, store; print(cli.__file__, store.__file__)"]
    found = subprocess.run(where, cwd=tmp_path, env=environ, capture_output=True, text=True, check=True)  # noqa: S603
    assert all(Path(file).is_relative_to(installed) for file in found.stdout.split())
    asked = [*COMMAND, "gpus", "--json"]  # makes a database: migrations, snapshot, accelerators, rates
    ended = subprocess.run(asked, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False)  # noqa: S603
    assert ended.returncode == 0, ended.stderr
    assert {item["id"]: item["offers"] for item in json.loads(ended.stdout)["items"]}["a100-pcie-80g"] > 0


def _installs(text: str) -> list[str]:
    """The `pip install` commands of a text, without what names the place to install to."""
    found = re.findall(r"(?:\$\(PIP\)|python -m pip) (install [^\n&]*)", text)
    return [command.replace("--editable ", "").strip() for command in found]


def test_the_image_is_installed_by_the_commands_of_the_makefile() -> None:
    here = [command for command in _installs(MAKEFILE) if "-dev.lock" not in command]
    assert _installs(" && ".join(_values("RUN"))) == here
    assert "--require-hashes" in here[0]


# --- the image --------------------------------------------------------------------------------------------------------


def _images() -> list[str]:
    stages = set(re.findall(r" AS (\w+)", DOCKERFILE))
    bases = [value.split()[0] for value in _values("FROM")]
    return [base for base in bases if base not in stages] + [
        service["image"] for service in SERVICES.values() if service not in OURS.values()
    ]


def test_images_of_others_are_pinned_to_a_version_and_a_release_of_debian() -> None:
    images = _images()
    assert len(images) == 2
    for image in images:
        assert re.fullmatch(r"[a-z]+:[0-9.]+-(slim-)?bookworm", image), image


def test_the_image_has_a_python_that_the_project_supports() -> None:
    (image,) = [image for image in _images() if image.startswith("python:")]
    assert f">={image.partition(':')[2].partition('-')[0]}" == PROJECT["project"]["requires-python"]


def test_the_image_runs_as_a_user_who_owns_nothing_but_its_folder() -> None:
    (user,) = _values("USER")
    (folder,) = _values("WORKDIR")[1:]
    (made,) = [run for run in _values("RUN") if "useradd" in run]
    assert re.fullmatch(r"[1-9][0-9]{3,}:[1-9][0-9]{3,}", user)
    assert f"--uid {user.partition(':')[0]} " in made
    assert made.endswith(f"--owner gpufare --group gpufare --mode 0700 {folder}")
    last_run = max(place for place, (name, _) in enumerate(_instructions()) if name == "RUN")
    assert _instructions().index(("USER", user)) > last_run


def test_without_an_address_the_image_keeps_its_database_in_that_folder(tmp_path: Path) -> None:
    environ = dict(pair.partition("=")[::2] for value in _values("ENV") for pair in shlex.split(value))
    assert load(environ, tmp_path).database_url == f"sqlite:///{_values('WORKDIR')[-1]}/gpufare.db"


# --- commands and settings --------------------------------------------------------------------------------------------

_COMMANDS = {"image": _array("CMD")} | {name: service["command"] for name, service in OURS.items()}


@pytest.mark.parametrize("role", _COMMANDS)
def test_every_command_is_one_of_gpufare_with_options_that_it_has(role: str) -> None:
    assert _array("ENTRYPOINT") == list(PROJECT["project"]["scripts"])
    name, *arguments = _COMMANDS[role]
    commands = getattr(typer.main.get_command(app), "commands", {})
    assert name in commands, f"gpufare has no command {name}"
    commands[name].make_context(name, arguments).close()


def _filled(value: str, environ: Mapping[str, str]) -> str:
    """A value of docker-compose.yml with `${NAME:-default}` and `${NAME:?why}` filled in."""

    def fill(found: re.Match[str]) -> str:
        name, kind, rest = found.groups()
        assert environ.get(name) or kind == "-", f"{name}: {rest}"
        return environ.get(name) or rest

    return re.sub(r"\$\{(\w+):([-?])([^}]*)\}", fill, value)


def _environ(service: str, environ: Mapping[str, str] = SECRETS) -> dict[str, str]:
    return {name: _filled(value, environ) for name, value in SERVICES[service]["environment"].items()}


@pytest.mark.parametrize("service", OURS)
def test_every_setting_is_one_that_gpufare_takes(service: str, tmp_path: Path) -> None:
    loaded = load(_environ(service), tmp_path)
    assert loaded.database_url == "postgresql+psycopg://gpufare@db:5432/gpufare"
    token = loaded.api_token.get_secret_value() if loaded.api_token else None
    assert token == (SECRETS["GPUFARE_API_TOKEN"] if service == "api" else None)


def test_password_and_token_are_required_wherever_they_stand() -> None:
    text = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    for name in SECRETS:
        used = re.findall(rf"\$\{{?{name}[^}}]*", text)
        assert used, name
        assert all(re.fullmatch(rf"\$\{{{name}:\?set {name} in \.env .*", one) for one in used), used
    for service in ("api", "worker", "migrate", "db"):
        with pytest.raises(AssertionError, match="PASSWORD"):
            _environ(service, {"GPUFARE_API_TOKEN": "t"})
    with pytest.raises(AssertionError, match="TOKEN"):
        _environ("api", {"POSTGRES_PASSWORD": "p"})


@pytest.mark.parametrize("service", OURS)
def test_the_driver_takes_the_password_as_it_is(service: str, monkeypatch: pytest.MonkeyPatch) -> None:
    environ = _environ(service)
    database = _environ("db")
    url = make_url(environ["GPUFARE_DATABASE_URL"])
    assert (url.username, url.password, url.database) == (database["POSTGRES_USER"], None, database["POSTGRES_DB"])
    assert url.host == "db"
    monkeypatch.setenv("PGPASSWORD", environ["PGPASSWORD"])
    (taken,) = [option.val for option in Conninfo.get_defaults() if option.keyword == b"password"]
    assert taken is not None
    assert taken.decode() == database["POSTGRES_PASSWORD"] == SECRETS["POSTGRES_PASSWORD"]


def test_settings_and_credentials_come_from_files_that_need_not_be_there() -> None:
    read = {name: {file["path"] for file in service["env_file"]} for name, service in OURS.items()}
    assert read == {
        "migrate": {"gpufare.env"},
        "worker": {"gpufare.env", "credentials.env"},  # only workers ask the clouds
        "api": {"gpufare.env"},
    }
    assert not any(file["required"] for service in OURS.values() for file in service["env_file"])


@pytest.mark.parametrize("name", [".env", "gpufare.env", "credentials.env"])
def test_files_with_secrets_are_never_committed(name: str) -> None:
    asked = ["git", "check-ignore", "--quiet", "--no-index", name]
    assert subprocess.run(asked, cwd=ROOT, check=False).returncode == 0, f"git would take {name}"  # noqa: S603


# --- services ---------------------------------------------------------------------------------------------------------


def test_the_database_comes_first_then_its_migration_then_the_rest() -> None:
    waits = {
        name: {on: how["condition"] for on, how in service.get("depends_on", {}).items()}
        for name, service in SERVICES.items()
    }
    migrated = {"migrate": "service_completed_successfully"}
    assert waits == {"db": {}, "migrate": {"db": "service_healthy"}, "worker": migrated, "api": migrated}
    assert OURS["migrate"]["command"] == ["migrate"]


def test_all_but_the_migration_are_started_again() -> None:
    policies = {name: service["restart"] for name, service in SERVICES.items()}
    again = "unless-stopped"
    assert policies == {"db": again, "migrate": "no", "worker": again, "api": again}


def test_there_may_be_any_number_of_workers() -> None:
    assert not {"container_name", "ports", "hostname"} & SERVICES["worker"].keys()


def test_the_database_is_kept_in_a_named_volume() -> None:
    (volume,) = SERVICES["db"]["volumes"]
    name, folder = volume.split(":")
    whole = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
    assert name in whole["volumes"]
    assert folder == "/var/lib/postgresql/data", "where the image of PostgreSQL 17 keeps it"


def test_the_api_alone_listens_outside_and_on_loopback_unless_told_otherwise() -> None:
    assert {name for name, service in SERVICES.items() if "ports" in service} == {"api"}
    (ports,) = SERVICES["api"]["ports"]
    (port,) = _values("EXPOSE")
    assert _filled(ports, {}) == f"127.0.0.1:8000:{port}"
    assert _filled(ports, {"PUBLISH_PORT": "80"}) == f"127.0.0.1:80:{port}"
    assert _filled(ports, {"PUBLISH_ADDRESS": "0.0.0.0"}) == f"0.0.0.0:8000:{port}"


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_can_write_to_its_own_folders_alone_and_gain_no_rights(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "cap_add" not in service
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "/tmp" in service["tmpfs"]  # noqa: S108
    assert "privileged" not in service


def test_all_of_ours_run_one_image() -> None:
    assert {service["image"] for service in OURS.values()} == {"gpufare:local"}
    assert {service["build"]["context"] for service in OURS.values()} == {"."}


def test_each_may_end_its_work_before_it_is_killed() -> None:
    def grace(name: str) -> timedelta:
        return timedelta(seconds=int(SERVICES[name]["stop_grace_period"].removesuffix("s")))

    assert grace("worker") > STOP_PATIENCE + timedelta(seconds=CHILD_PATIENCE_S)
    assert grace("api") > timedelta(seconds=GRACE_S) + timedelta(seconds=CHILD_PATIENCE_S)
    assert timedelta(seconds=GRACE_S + CHILD_PATIENCE_S) < DOCKER_PATIENCE, "for `docker stop` of the image alone"
    assert _values("STOPSIGNAL") == ["SIGTERM"]


# --- healthchecks -----------------------------------------------------------------------------------------------------


def _healthy(code: str) -> bool:
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=PATIENCE_S, check=False)  # noqa: S603
    assert ended.returncode in (0, 1), "any other status means nothing to Docker"
    return ended.returncode == 0


def _server_check(url: str) -> str:
    """The image's healthcheck, asking this server in place of the image's."""
    (healthcheck,) = _values("HEALTHCHECK")
    *python, code = json.loads(healthcheck[healthcheck.index("CMD [") + 4 :])
    assert python == ["python", "-c"]
    (port,) = _values("EXPOSE")
    host, _, other = url.removeprefix("http://").partition(":")
    assert f"'127.0.0.1', {port}," in code
    return str(code.replace(f"'127.0.0.1', {port},", f"'{host}', {other},"))


def test_the_servers_healthcheck_passes_with_a_token_and_fails_once_the_server_is_gone(tmp_path: Path) -> None:
    with serving(tmp_path, GPUFARE_API_TOKEN=SECRETS["GPUFARE_API_TOKEN"]) as served:
        check = _server_check(served.url)
        assert _healthy(check)
    assert not _healthy(check)


@pytest.mark.parametrize(("status", "healthy"), [(200, True), (503, False), (401, False)])
def test_the_servers_healthcheck_obeys_the_status_of_healthz(status: int, healthy: bool) -> None:
    with canned(Canned(status)) as server:
        assert _healthy(_server_check(server.url)) is healthy
        assert [path for path, _, _ in server.requests] == ["/healthz"]


def test_the_api_has_the_healthcheck_of_the_image_and_the_migration_none() -> None:
    assert "healthcheck" not in SERVICES["api"]
    assert SERVICES["migrate"]["healthcheck"] == {"disable": True}


def _worker_check(file: Path) -> str:
    """The worker's healthcheck, looking at this file in place of its own."""
    *before, code = SERVICES["worker"]["healthcheck"]["test"]
    assert before == ["CMD", "python", "-c"]
    _, option, alive = SERVICES["worker"]["command"]
    assert option == "--alive-file"
    assert f"'{alive}'" in code
    assert any(Path(alive).is_relative_to(folder) for folder in SERVICES["worker"]["tmpfs"])
    return str(code.replace(f"'{alive}'", repr(str(file))))


@pytest.mark.parametrize(("age_s", "healthy"), [(0, True), (30, True), (90, False)])
def test_the_workers_healthcheck_obeys_the_age_of_its_file(tmp_path: Path, age_s: int, healthy: bool) -> None:
    file = tmp_path / "alive"
    file.touch()
    os.utime(file, (time.time() - age_s,) * 2)
    assert _healthy(_worker_check(file)) is healthy


def test_the_workers_healthcheck_fails_before_its_first_tick(tmp_path: Path) -> None:
    assert not _healthy(_worker_check(tmp_path / "alive"))


@pytest.fixture
def worker(tmp_path: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A worker as docker-compose.yml starts it, but for its database and the folder of its file."""
    arguments = [word.replace("/tmp/", f"{tmp_path}/") for word in SERVICES["worker"]["command"]]  # noqa: S108
    with subprocess.Popen([*COMMAND, *arguments], cwd=tmp_path, env=environment(tmp_path)) as process:  # noqa: S603
        try:
            yield process
        finally:
            process.terminate()
            process.wait(PATIENCE_S)


def test_a_worker_is_healthy_once_it_ticks_and_ends_well_when_told(
    worker: "subprocess.Popen[bytes]", tmp_path: Path
) -> None:
    check = _worker_check(tmp_path / "alive")

    def ticked() -> bool | None:
        assert worker.poll() is None, "the worker ended"
        return _healthy(check) or None

    until(ticked, "the worker's file is new")
    worker.terminate()
    assert worker.wait(PATIENCE_S) == 0


def test_the_databases_healthcheck_asks_over_tcp_for_the_database_that_is_used() -> None:
    kind, command, *options = SERVICES["db"]["healthcheck"]["test"]
    assert (kind, command) == ("CMD", "pg_isready")
    database = _environ("db")
    assert set(options) == {
        "--quiet",
        "--host=127.0.0.1",
        f"--username={database['POSTGRES_USER']}",
        f"--dbname={database['POSTGRES_DB']}",
    }
