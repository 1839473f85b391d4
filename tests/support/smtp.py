"""A mail server on this machine, that answers as a test tells it."""

import base64
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from email import message_from_bytes, policy
from email.message import EmailMessage
from socketserver import StreamRequestHandler, ThreadingTCPServer
from threading import Thread

PASSWORD = "invented-pass-word"
LOGIN = base64.b64encode(f"\0gpufare\0{PASSWORD}".encode()).decode()
TRICKLE = "trickle"
"""An answer that never ends: a line now and then."""


class Smtp(ThreadingTCPServer):
    """A mail server of one test. `answers` are those it gives instead of its own, by the command's first word."""

    daemon_threads = False

    def __init__(self, tls: ssl.SSLContext | None, *, at_once: bool, answers: Mapping[str, str]) -> None:
        super().__init__(("127.0.0.1", 0), _Talk)
        self.tls, self.at_once, self.answers = tls, at_once, answers
        self.commands: list[str] = []
        self.mails: list[bytes] = []

    @property
    def mail(self) -> EmailMessage:
        """The one mail that came."""
        (only,) = self.mails
        return message_from_bytes(only, policy=policy.default)


class _Talk(StreamRequestHandler):
    server: Smtp
    timeout = 30
    encrypted = False

    def handle(self) -> None:
        try:
            if self.server.at_once:
                self._encrypt()
            self._say("connect", "220 mail.example ESMTP")
            while line := self.rfile.readline():
                self._answer(line.decode().strip())
        except OSError:
            return  # the other side went away, or refused the certificate

    def _answer(self, command: str) -> None:
        self.server.commands.append(command)
        word = command.split(" ")[0].upper()
        if word == "EHLO":
            offers = ["250-mail.example"]
            offers += ["250-STARTTLS"] if self.server.tls and not self.encrypted else []
            self._say("EHLO", "\r\n".join([*offers, "250 AUTH PLAIN"]))
        elif word == "STARTTLS":
            if self._say(word, "220 go ahead"):
                self._encrypt()
        elif word == "AUTH":
            self._say(word, "235 welcome" if command.endswith(f" {LOGIN}") else f"535 you said {command}")
        elif word == "DATA":
            if self._say(word, "354 end with a dot"):
                self._take()
        else:
            self._say(word, "221 bye" if word == "QUIT" else "250 fine")

    def _take(self) -> None:
        lines = []
        while (line := self.rfile.readline()) not in (b".\r\n", b""):
            lines.append(line.removeprefix(b"."))
        if self._say("taken", "250 queued"):
            self.server.mails.append(b"".join(lines))

    def _say(self, word: str, answer: str) -> bool:
        """Say it, or what the test wants said; whether it was its own. A test's empty answer ends the connection."""
        wanted = self.server.answers.get(word, answer)
        if not wanted:
            raise ConnectionError
        while wanted == TRICKLE:
            self.wfile.write(b"250-more\r\n")
            time.sleep(0.02)
        self.wfile.write(f"{wanted}\r\n".encode())
        return wanted == answer

    def _encrypt(self) -> None:
        assert self.server.tls
        self.connection = self.server.tls.wrap_socket(self.connection, server_side=True)
        self.encrypted = True
        self.rfile, self.wfile = self.connection.makefile("rb"), self.connection.makefile("wb", 0)

    def finish(self) -> None:
        super().finish()
        self.connection.close()


@contextmanager
def smtp(
    tls: ssl.SSLContext | None = None, *, at_once: bool = False, answers: Mapping[str, str] | None = None
) -> Iterator[Smtp]:
    with Smtp(tls, at_once=at_once, answers=answers or {}) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
