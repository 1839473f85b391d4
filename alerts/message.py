"""An event in words for a person: what, where, since when, what to use instead.

All of it is plain text. Escaping, and how a line, a command and a link are shown, is each format's own.

Beside what every event has (`watch`, `before`, `after`, `since`, `offers`, `unknown`, `fallback`), these are told of:
`suspicious` (bool), with `provider` and `watches` where a whole provider changed at once; `price_below` and `currency`,
else the watch's and its spec's; `sources` as in the answer of `/cheapest`; `state`; `held`, the events that a summary
stands for, as objects with a `type`, or an object of how many of each type; `target` (a name) and `why` of a dead one.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from urllib.parse import urlencode

from alerts.words import Words
from alerts.words_en import EN
from alerts.words_offer import Json, gpus, minute, money, object_of, objects_of, region, short, text_of, time_of, whole
from alerts.words_zh import ZH
from catalog.launch_commands import launch_command
from catalog.spec import Sort
from catalog.watches import Event, EventType, Lang
from catalog.words import Level

_MOST_OFFERS = 5
_MOST_UNKNOWN = 3
_MOST_NAMES = 10
_OUT = (EventType.STOCK_OUT, EventType.REMINDER)
_OF_ONE_OFFER = (EventType.PRICE_BELOW, EventType.PRICE_CHANGED, EventType.BEST_CHANGED)
_OF_OFFERS = (*_OUT, EventType.STOCK_LOW, EventType.STOCK_BACK, *_OF_ONE_OFFER)
"""What is about machines that can, or could, be had. The rest is about the watching itself."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """A command or a link, and what it is for."""

    label: str
    value: str


@dataclass(frozen=True, slots=True)
class Message:
    """What a person is told. No part of it holds a line break."""

    title: str
    lines: tuple[str, ...]
    command: Labelled | None
    """What starts the machine to use now, for a POSIX shell."""
    links: tuple[Labelled, ...]

    @property
    def body(self) -> str:
        """All but the title, as plain text."""
        command = [self.command.label, self.command.value] if self.command else []
        return "\n".join([*self.lines, *command, *(f"{link.label} {link.value}" for link in self.links)])


def message(event: Event, lang: Lang, *, page_url: str | None) -> Message:
    """An event in words. `page_url` is where the web page is reached; without one there is no link to it."""
    teller = _Teller(event, EN if lang is Lang.EN else ZH, lang)
    return Message(
        title=teller.title(),
        lines=tuple(filter(None, teller.lines())),
        command=teller.command(),
        links=() if page_url is None else (teller.link(page_url),),
    )


def _page(page_url: str, spec: Json) -> str:
    """The page that shows what the watch looks for."""
    asked = {name: value for name, value in ((name, _parameter(value)) for name, value in spec.items()) if value}
    return f"{page_url.rstrip('/')}/{'?' if asked else ''}{urlencode(asked, errors='replace')}"


def _parameter(value: object) -> str:
    """A parameter's value as a question writes it; "" where it says nothing."""
    if isinstance(value, (list, tuple)):
        return ",".join(filter(None, map(_parameter, value)))
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, (str, int, float)) else ""


@dataclass(frozen=True, slots=True)
class _Teller:
    event: Event
    words: Words
    lang: Lang

    @property
    def _data(self) -> Json:
        return self.event.data

    @property
    def _watch(self) -> Json:
        return object_of(self._data.get("watch"))

    @property
    def _spec(self) -> Json:
        return object_of(self._watch.get("spec"))

    @property
    def _offers(self) -> list[Json]:
        return objects_of(self._data.get("offers"))

    @property
    def _fallback(self) -> Json:
        return object_of(self._data.get("fallback"))

    def title(self) -> str:
        provider, whole_provider = text_of(self._data.get("provider")), self.words.grouped.get(self.event.type)
        if provider and whole_provider and self._data.get("suspicious") is True and not self._watch:
            return whole_provider.format(provider=provider)
        headline, subject = self.words.headlines[self.event.type], self._subject()
        return self.words.titled.format(headline=headline, subject=subject) if subject else headline

    def _subject(self) -> str:
        """What and where, as far as it is one thing and one place; else the name that the user gave."""
        most = 1 if self.event.type in _OF_ONE_OFFER else len(self._offers) if self.event.type in _OF_OFFERS else 0
        offers = self._offers[:most]
        what = {gpus(offer, self.words) for offer in offers}
        if len(what) == 1:
            where = {region(offer, self.words, self.lang) for offer in offers}
            return self.words.separator.join([*what, *(where if len(where) == 1 else ())])
        return text_of(self._watch.get("name")) or self._target()

    def _target(self) -> str:
        target = self._data.get("target")
        return text_of(object_of(target).get("name")) or text_of(target)

    def lines(self) -> Iterator[str]:
        yield self._labelled(self.words.watch, text_of(self._watch.get("name")))
        yield from self._names()
        yield self._when()
        yield self._labelled(self.words.target, self._target())
        yield self._labelled(self.words.reason, text_of(self._data.get("why")))
        yield from self._change()
        yield from self._listed([whole(offer, self.words, self.lang) for offer in self._offers], _MOST_OFFERS)
        yield from self._unknown()
        yield from self._instead()
        yield from self._sources()
        yield from self._held()
        yield self.words.suspicious if self._data.get("suspicious") is True else ""
        yield self.words.notes.get(self.event.type, "")

    def command(self) -> Labelled | None:
        offer = self._to_start()
        facts = [offer.get(name) for name in ("provider", "purchase", "region", "instance_type")]
        provider, purchase, where, machine = (fact if isinstance(fact, str) else "" for fact in facts)
        zone = offer.get("zone")
        command = launch_command(provider, purchase, where, zone if isinstance(zone, str) else None, machine)
        return None if command is None else Labelled(self.words.start.format(machine=text_of(machine)), command)

    def link(self, page_url: str) -> Labelled:
        return Labelled(self.words.page, _page(page_url, self._spec))

    def _to_start(self) -> Json:
        """The offer to use now: the substitute for what is out, else the first that is not known to be out."""
        if self.event.type not in _OF_OFFERS:
            return {}
        can_be = (one for one in self._offers if object_of(one.get("stock")).get("level") != Level.OUT)
        return self._fallback if self.event.type in _OUT else next(can_be, self._fallback)

    def _labelled(self, label: str, value: str) -> str:
        return self.words.labelled.format(label=label, value=value) if value else ""

    def _names(self) -> Iterator[str]:
        """The watches of an event that is about several."""
        watches = objects_of(self._data.get("watches"))
        names = [text_of(watch.get("name")) or text_of(watch.get("id")) for watch in watches]
        if names:
            yield self._labelled(self.words.watches, self.words.separator.join(self._some(names, _MOST_NAMES)))

    def _when(self) -> str:
        since = time_of(self._data.get("since"))
        if since:
            return self._labelled(self.words.since, since)
        return self._labelled(self.words.at, minute(self.event.at))

    def _change(self) -> Iterator[str]:
        """A price or an offer before and now, and the limit that a price is below. The headline has told a state."""
        if self.event.type in _OF_ONE_OFFER:
            yield self._labelled(self.words.before, self._value(self._data.get("before")))
            yield self._labelled(self.words.now, self._value(self._data.get("after")))
        if self.event.type is EventType.PRICE_BELOW:
            limit = self._amount(self._data.get("price_below") or self._watch.get("price_below"))
            yield self._labelled(self.words.limit, limit)
        yield self._labelled(self.words.state, self.words.states.get(text_of(self._data.get("state")), ""))

    def _value(self, value: object) -> str:
        """An amount or an offer; "" for a state."""
        if isinstance(value, str) and value in self.words.states:
            return ""
        one = object_of(value)
        if "instance_type" in one:
            about = short if self.event.type is EventType.BEST_CHANGED else whole
            return about(one, self.words, self.lang)
        return money(one.get("amount"), one.get("currency")) or self._amount(value)

    def _amount(self, amount: object) -> str:
        """In the currency and the unit that the watch compares prices in."""
        first = self._offers[0] if self._offers else {}
        currency = self._data.get("currency") or self._spec.get("currency") or first.get("currency")
        sort = self._spec.get("sort")
        unit = self.words.units[Sort(sort) if isinstance(sort, str) and sort in set(Sort) else Sort.PRICE]
        stated = money(amount, currency)
        return unit.format(amount=stated) if stated else ""

    def _unknown(self) -> Iterator[str]:
        offers = [whole(offer, self.words, self.lang) for offer in objects_of(self._data.get("unknown"))]
        if offers:
            yield self._labelled(self.words.unknown, str(len(offers)))
            yield from self._listed(offers, _MOST_UNKNOWN)

    def _instead(self) -> Iterator[str]:
        if self._fallback:
            yield self._labelled(self.words.use_instead, whole(self._fallback, self.words, self.lang))
        elif self.event.type in _OUT and "fallback" in self._data:
            yield self.words.nothing_instead

    def _sources(self) -> Iterable[str]:
        return self._listed([self._source(one) for one in objects_of(self._data.get("sources"))], _MOST_OFFERS)

    def _source(self, source: Json) -> str:
        at = time_of(source.get("last_success"))
        name = f"{text_of(source.get('provider'))} {text_of(source.get('feed'))}".strip()
        parts = [name, self.words.last_success.format(at=at) if at else "", text_of(source.get("error"))]
        return self.words.separator.join(filter(None, parts))

    def _held(self) -> Iterator[str]:
        held = self._data.get("held")
        counts = Counter(text_of(one.get("type")) for one in objects_of(held)) or object_of(held)
        for kind, count in counts.items():
            headline = self.words.headlines[EventType(kind)] if kind in set(EventType) else text_of(kind)
            yield self._labelled(headline, text_of(count))

    def _listed(self, texts: list[str], most: int) -> Iterable[str]:
        return (f"• {text}" for text in self._some(texts, most))

    def _some(self, texts: list[str], most: int) -> list[str]:
        """As many as are shown, and how many there are beside."""
        more = len(texts) - most
        return texts if more <= 0 else [*texts[:most], self.words.more.format(count=more)]
