"""One attempt to tell by e-mail, over SMTP. It blocks: call it in a thread."""

import re
import smtplib
import socket
import ssl
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime, parseaddr
from threading import Event, Thread
from typing import Any, Literal, NoReturn
from urllib.parse import unquote

from alerts.guard import Refused
from alerts.webhook import NoReply, unconnected
from alerts.words_offer import printable

Security = Literal["starttls", "tls", "none"]
"""STARTTLS (port 587, as a rule), TLS from the first byte (465), or a connection that all can read."""

_LOCAL = "[A-Za-z0-9!#$%&'*+=^_`{|}~-]+"
_LABEL = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_ADDRESS = re.compile(rf"(?=.{{1,254}}$)(?=[^@]{{1,64}}@){_LOCAL}(?:\.{_LOCAL})*@{_LABEL}(?:\.{_LABEL})*")
"""What RFC 5321 lets stand without quotes: in it is no blank and no end of a line, so no header and no command either.
But no `?`, since `=?…?=` is read as a code for other words, and no `/`, since `mailto://` is a mistake."""
_MOST_SHOWN = 200
"""Of a server's words, in characters."""
_AGAIN_S = 0.5


class MailRefused(Exception):
    """The mail was not taken, and would not be another time. The text is one sentence for people, without secrets."""


@dataclass(frozen=True, slots=True)
class MailServer:
    """Who takes our mail. ValueError where it cannot be used as it is given."""

    host: str
    port: int
    security: Security
    user: str | None
    password: str | None = field(repr=False)
    sender: str
    """An address, or a name and an address: `gpufare <gpufare@example.com>`."""

    def __post_init__(self) -> None:
        if not _ADDRESS.fullmatch(self.address) or not self.sender.isprintable():
            raise ValueError("the sender of e-mail is no address: write it as gpufare@example.com")
        if bool(self.user) != bool(self.password):
            raise ValueError(f"{self.host} has a user without a password, or a password without a user: set both")
        if self.password and self.security == "none":
            raise ValueError(f"the password for {self.host} would be sent for all to read: use starttls or tls")
        if not f"{self.user}{self.password}".isascii():
            raise ValueError(f"user and password for {self.host} must be ASCII")

    @property
    def address(self) -> str:
        """The sender's address alone."""
        return parseaddr(self.sender)[1]


def check_mailto(url: str) -> str:
    """The address of a `mailto:` URL. Refused unless it is exactly one, without a subject or anything else."""
    scheme, _, rest = url.partition(":")
    address = unquote(rest)
    if scheme.lower() != "mailto":
        raise Refused("The URL of an e-mail target must begin with mailto:.")
    if "?" in rest or "#" in rest:
        raise Refused(
            "The mailto: URL must hold an address and nothing else: leave out what follows the question mark."
        )
    if not _ADDRESS.fullmatch(address):
        raise Refused("The mailto: URL must hold exactly one address, in ASCII: write it as mailto:ops@example.com.")
    return address


def send_mail(
    server: MailServer, to: str, subject: str, text: str, *, message_id: str, now: datetime, timeout_s: float
) -> None:
    """Hand a mail to the server. Raises NoReply where another attempt may go well, and MailRefused where none will.

    `to` is an address as `check_mailto` gives it. `message_id` is the event's: mailboxes may know a mail again by it.
    `timeout_s` is all that the attempt may take; of several addresses of the server each may take as long to answer.
    Certificates are checked against the machine's authorities, or those of `SSL_CERT_FILE`.
    """
    if not _ADDRESS.fullmatch(to):
        raise MailRefused("the recipient is no e-mail address")
    message = _message(server, to, subject, text, message_id, now)
    try:
        _hand_over(server, to, message, timeout_s)
    except smtplib.SMTPNotSupportedError as error:
        raise MailRefused(f"{server.host} offers no STARTTLS, or no way to log in that is known here") from error
    except smtplib.SMTPAuthenticationError as error:
        # The server's words are left out: they may repeat what it was sent.
        _fail(error.smtp_code, f"{server.host} does not let its user in ({error.smtp_code})")
    except smtplib.SMTPRecipientsRefused as error:
        ((code, words),) = error.recipients.values()
        said = re.sub(re.escape(to), "***", _shown(code, words), flags=re.IGNORECASE)
        _fail(code, f"{server.host} does not take mail for the recipient ({said})")
    except smtplib.SMTPResponseException as error:
        _fail(error.smtp_code, f"{server.host} does not take the mail ({_shown(error.smtp_code, error.smtp_error)})")
    except smtplib.SMTPException as error:
        raise NoReply(f"{server.host}: the connection ended before the mail was taken") from error
    except OSError as error:
        raise NoReply(f"{server.host}: {unconnected(error)}") from error


def _message(server: MailServer, to: str, subject: str, text: str, message_id: str, now: datetime) -> EmailMessage:
    """Names of watches and offers stand in subject and text: whatever could end a line of the head is a blank there."""
    message = EmailMessage(policy=SMTP.clone(cte_type="7bit"))
    name, address = parseaddr(server.sender)
    message["From"] = Address(name, addr_spec=address)
    message["To"] = Address(addr_spec=to)
    message["Subject"] = printable(subject)
    message["Date"] = format_datetime(now)
    message["Message-ID"] = f"<{re.sub('[^A-Za-z0-9_-]', '-', message_id)}@{address.partition('@')[2]}>"
    message["Auto-Submitted"] = "auto-generated"  # RFC 3834: nobody's holiday notice is wanted
    message.set_content(text.encode("utf-8", "replace").decode())
    return message


def _hand_over(server: MailServer, to: str, message: EmailMessage, timeout_s: float) -> None:
    smtp = _connected(server, timeout_s)
    try:
        if server.security == "starttls":
            smtp.starttls(context=ssl.create_default_context())
        if server.user and server.password:
            smtp.login(server.user, server.password)
        smtp.send_message(message, server.address, [to])
        with suppress(OSError):  # it is taken: how the server says goodbye changes nothing
            smtp.quit()
    finally:
        smtp.close()


def _connected(server: MailServer, timeout_s: float) -> smtplib.SMTP:
    name = socket.gethostname()  # the library would ask the name service, which may take long
    called = name if "." in name else "[127.0.0.1]"
    if server.security == "tls":
        context = ssl.create_default_context()
        return _BoundedTls(server.host, server.port, called, timeout=timeout_s, context=context)
    return _Bounded(server.host, server.port, called, timeout=timeout_s)


class _Bounded(smtplib.SMTP):
    """All of it takes `timeout` at the most: the library bounds each single wait alone."""

    def connect(self, host: str = "localhost", port: int = 0, source_address: Any = None) -> tuple[int, bytes]:
        """Connect, and begin to count the time."""
        self._over = Event()
        Thread(target=self._end_in_time, name="mail-timeout", daemon=True).start()
        try:
            return super().connect(host, port, source_address)
        except OSError:
            self._over.set()
            raise

    def close(self) -> None:
        """Close the connection."""
        self._over.set()
        super().close()

    def _end_in_time(self) -> None:
        wait_s = self.timeout
        while not self._over.wait(wait_s):
            wait_s = _AGAIN_S  # what is connected to just now, or agrees on TLS, is no socket of ours yet
            if self.sock is not None:
                with suppress(OSError):
                    # Not TLS's own: from then on what is still sent could be read by all.
                    socket.socket.shutdown(self.sock, socket.SHUT_RDWR)


class _BoundedTls(_Bounded, smtplib.SMTP_SSL):
    """The same, over TLS from the first byte."""


def _fail(code: int, said: str) -> NoReturn:
    """RFC 5321, 4.2.1: what begins with 5 is for good."""
    raise (MailRefused if 500 <= code < 600 else NoReply)(said) from None


def _shown(code: int, words: bytes | str) -> str:
    text = words.decode(errors="replace") if isinstance(words, bytes) else words
    return f"{code} {printable(text)[:_MOST_SHOWN]}"
