"""An HTTP server on 127.0.0.1 in threads of this process, that ends all of them when it is told to stop."""

import socket
import sys
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock, Thread
from typing import Any, ClassVar


class LoopbackServer(ThreadingHTTPServer):
    """Serves from the moment that it is made. `stop` closes the port and every connection."""

    daemon_threads = False
    request_queue_size = 512
    may_break: ClassVar[tuple[type[BaseException], ...]] = (ConnectionError,)
    """What is no fault of ours: clients that go away."""

    def __init__(self, handler: type[BaseHTTPRequestHandler], port: int, name: str) -> None:
        super().__init__(("127.0.0.1", port), handler)
        self.stopping = Event()
        self._open: set[socket.socket] = set()
        self._lock = Lock()
        self._thread = Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, name=name)

    def begin(self) -> None:
        """Serve, once everything that answers needs is there."""
        self._thread.start()

    @property
    def url(self) -> str:
        """Scheme, host and port."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def stop(self) -> None:
        """Stop listening, cut what is still open, and wait until every thread has ended."""
        self.stopping.set()
        self.shutdown()
        self._thread.join()
        with self._lock:
            for connection in self._open:
                with suppress(OSError):  # the client was first
                    connection.shutdown(socket.SHUT_RDWR)
        self.server_close()

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accept a connection, remembering it for `stop`."""
        connection, address = super().get_request()
        with self._lock:
            self._open.add(connection)
        return connection, address

    def shutdown_request(self, request: Any) -> None:
        """Close a connection that is done."""
        with self._lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that went away; print the traceback of anything else."""
        if not isinstance(sys.exception(), self.may_break):
            super().handle_error(request, client_address)
