"""A server on loopback that gives every request the same answer, or none."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True, slots=True)
class Canned:
    """What is answered. `status` 0 closes the connection without an answer; `cut` promises more bytes than it sends."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    cut: bool = False
    silent_s: float = 0.0
    """Seconds of silence before anything is sent."""
    drip_s: float = 0.0
    """Seconds of silence before each byte of the body, until nobody listens any more."""


@dataclass(slots=True)
class Asked:
    """The requests received: (path, headers, body)."""

    url: str
    requests: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hangs up in the middle of an answer means to; of anything else the test's output tells."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


@contextmanager
def canned(answer: Canned) -> Iterator[Asked]:
    """Serve it on 127.0.0.1 for as long as the block runs."""
    done = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def handle_any(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            asked.requests.append((self.path, dict(self.headers.items()), self.rfile.read(length)))
            done.wait(answer.silent_s)
            if not answer.status:
                self.close_connection = True
                return
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.body) + (1000 if answer.cut else 0)))
            self.end_headers()
            self.close_connection = True
            if answer.drip_s:
                self.drip()
            else:
                self.wfile.write(answer.body)

        def drip(self) -> None:
            for number in range(len(answer.body)):
                if done.wait(answer.drip_s):
                    return
                try:
                    self.wfile.write(answer.body[number : number + 1])
                except OSError:
                    return

        do_GET = do_POST = do_HEAD = handle_any  # noqa: N815 - the names that http.server calls

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's own signature
            pass

    server = _Server(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    asked = Asked(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield asked
    finally:
        done.set()
        server.shutdown()
        thread.join()
        server.server_close()
