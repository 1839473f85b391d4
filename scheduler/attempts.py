"""One attempt to tell a target of an event: made, sent, judged. What became of it is for others to write."""

import asyncio
import random
from concurrent.futures import Executor
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

from alerts.formats import outcome_of, request_of
from alerts.guard import Refused
from alerts.mail import MailRefused, MailServer, check_mailto, send_mail
from alerts.message import message
from alerts.webhook import NoReply, Sender
from alerts.wire import Outcome, Result
from catalog.watches import Format
from store import delivering
from store.clock import Clock
from store.delivering import Claimed, Settled

_NO_SERVER = "no mail server is set: GPUFARE_SMTP__HOST names it"


@dataclass(frozen=True, slots=True)
class Pauses:
    """The pauses between attempts: each twice the one before, up to the longest, give or take a share of it."""

    first: timedelta = timedelta(seconds=5)
    longest: timedelta = timedelta(hours=1)
    jitter: float = 0.2

    def after(self, attempts: int, asked: timedelta | None = None, *, lot: float = 0.0) -> timedelta:
        """The pause after so many attempts; `lot` is drawn from -1 to 1. Never shorter than what the receiver asked."""
        doubled = self.first.total_seconds() * 2.0 ** min(attempts - 1, 60)
        pause = timedelta(seconds=min(doubled, self.longest.total_seconds())) * (1 + self.jitter * lot)
        return pause if asked is None else max(pause, asked)


@dataclass(frozen=True, slots=True)
class SendingRules:
    """How things are sent. `mail` is who takes e-mail; `page_url` is linked to in messages for people."""

    allow_private: bool = False
    timeout: timedelta = timedelta(seconds=10)
    """All that one attempt may take."""
    attempts: int = 20
    pauses: Pauses = field(default_factory=Pauses)
    keep: timedelta = timedelta(days=30)
    page_url: str | None = None
    mail: MailServer | None = None
    at_once: int = 768
    """Attempts by HTTP: each has a connection, and a process may commonly have 1,024 files open."""
    beside: int = 128
    """How many of them may be to targets that have one under way already, so that hundreds that hang leave room."""
    mails_at_once: int = 16
    per_target: int = 4
    look_every: timedelta = timedelta(seconds=0.5)
    margin: timedelta = timedelta(seconds=30)
    """By how much a lease outlasts an attempt: as long as the database may keep a writer waiting."""

    @property
    def lease(self) -> timedelta:
        """How long a delivery is ours: longer than an attempt can take."""
        return self.timeout + self.margin


class Attempts:
    """Makes attempts, any number at once. E-mail blocks, so `mails` are its threads."""

    def __init__(self, rules: SendingRules, clock: Clock, sender: Sender, mails: Executor) -> None:
        self._rules, self._clock, self._sender, self._mails = rules, clock, sender, mails

    async def make(self, claimed: Claimed) -> Settled:
        """Make one, and say what became of it."""
        if claimed.attempts > self._rules.attempts:  # whoever made the last one died of it, or with it
            why = f"given up: of {self._rules.attempts} attempts the last was not seen to end"
            return delivering.dead(claimed, self._clock(), why)
        by_mail = claimed.target.target.format is Format.EMAIL
        outcome, status = await (self._mailed(claimed) if by_mail else self._posted(claimed))
        return self.judged(claimed, outcome, status)

    async def _posted(self, claimed: Claimed) -> tuple[Outcome, int | None]:
        target = claimed.target.target
        try:
            request = request_of(target, claimed.event, self._clock(), page_url=self._rules.page_url)
        except ValueError as error:
            return Outcome(Result.REFUSED, str(error)), None
        try:
            reply = await self._sender.send(request)
        except Refused as refused:
            return Outcome(Result.REFUSED, str(refused)), None
        except NoReply as none:
            return Outcome(Result.RETRY, str(none)), None
        return outcome_of(target, reply, self._clock()), reply.status

    async def _mailed(self, claimed: Claimed) -> tuple[Outcome, int | None]:
        server, target = self._rules.mail, claimed.target.target
        if server is None:
            return Outcome(Result.REFUSED, _NO_SERVER), None
        told = message(claimed.event, target.lang, page_url=self._rules.page_url)
        send = partial(send_mail, now=self._clock(), timeout_s=self._rules.timeout.total_seconds())
        mail = partial(send, subject=told.title, text=told.body, message_id=claimed.event.id)
        try:
            to = check_mailto(target.url)
            await asyncio.get_running_loop().run_in_executor(self._mails, partial(mail, server, to))
        except (Refused, MailRefused) as refused:
            return Outcome(Result.REFUSED, str(refused)), None
        except NoReply as none:
            return Outcome(Result.RETRY, str(none)), None
        return Outcome(Result.ACCEPTED), None

    def judged(self, claimed: Claimed, outcome: Outcome, status: int | None) -> Settled:
        """What an outcome makes of a delivery."""
        now, why = self._clock(), outcome.why
        if outcome.result is Result.ACCEPTED:
            return delivering.sent(claimed, now, status)
        if outcome.gone:
            return delivering.dead(claimed, now, why, status, gone=True)
        if outcome.result is Result.REFUSED:
            return delivering.failed(claimed, now, why, status)
        if claimed.attempts >= self._rules.attempts:
            given_up = delivering.dead(claimed, now, f"given up after {claimed.attempts} attempts: {why}", status)
            return delivering.paused(given_up, outcome.after)
        pause = self._rules.pauses.after(claimed.attempts, outcome.after, lot=random.uniform(-1, 1))
        return delivering.paused(delivering.again(claimed, now, pause, why, status), outcome.after)
