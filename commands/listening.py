"""Listening on a host and port until told to stop."""

import signal
import socket
from typing import TYPE_CHECKING, NoReturn

import typer

from commands.build import refuse

if TYPE_CHECKING:
    from fastapi import FastAPI

GRACE_S = 5
"""How long requests under way may take to end once the server was told to stop."""


def end_on_signal() -> None:
    """End this process with status 0 on SIGTERM and on Ctrl-C, its `with` blocks left in order."""
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, _end)


def _end(_number: int, _frame: object) -> NoReturn:
    raise SystemExit(0)


def bound(host: str, port: int) -> socket.socket:
    """A socket that listens there. Refuses an address that cannot be listened on."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        found = socket.socket(family, kind, protocol)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
        found.listen()  # who asks before the server is ready waits, and is not refused
    except OSError as error:
        refuse(f"cannot listen on {host} port {port}: {error.strerror}; choose another with --host and --port")
    return found


def run(app: "FastAPI", listener: socket.socket) -> None:
    """Serve until told to stop. A line on stderr says where."""
    import uvicorn

    from api.collecting import take_turns_often

    take_turns_often()
    address, port = listener.getsockname()[:2]
    shown = f"[{address}]" if ":" in address else address
    typer.echo(f"gpufare: listening on http://{shown}:{port} (stop with Ctrl-C)", err=True)
    config = uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=GRACE_S)
    uvicorn.Server(config).run(sockets=[listener])
