"""Writing the current state to a file, for machines without a network."""

import os
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import IO
from uuid import uuid4
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import msgspec
import structlog
from sqlalchemy import Connection, Engine

from catalog.offers import Offer
from catalog.partitions import on_site
from store.archive import (
    FORMAT,
    LARGEST_STATE,
    MANIFEST,
    STATE,
    AnyLine,
    ArchiveError,
    Manifest,
    Member,
    believed,
    encoded,
    in_order,
    machine_line,
    offer_line,
    region_line,
)
from store.engine import reading
from store.offers import all_shelves, load_from
from store.version import program_version

_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The members' time: the same state gives the same bytes."""


@dataclass(frozen=True, slots=True)
class Used:
    """The providers that this installation uses, and the site that is set for each that has one."""

    providers: Collection[str]
    sites: Mapping[str, str]


def export(engine: Engine, file: Path, used: Used, now: datetime) -> Mapping[str, int]:
    """Write all offers as they stand to the file, which is replaced at the end; returns how many of each provider.

    One state is read, a region at a time. What no import would take is left out, and logged in a line for each
    provider. Raises ArchiveError, and leaves a file that was there, where it cannot be written or there is nothing to
    write.
    """
    target = _resolved(file)
    if target.exists() and not target.is_file():
        raise ArchiveError(f"{file} is no file that could be replaced: name another")
    try:
        with _replacing(target) as out, ZipFile(out, "w", ZIP_DEFLATED) as archive, reading(engine) as connection:
            member, offers = _write_state(archive, connection, used, now)
            manifest = Manifest(FORMAT, f"gpufare {program_version()}", now, {STATE: member})
            archive.writestr(_info(MANIFEST), msgspec.json.format(msgspec.json.encode(manifest)) + b"\n")
            if not offers:
                raise ArchiveError(f"nothing is known of any provider in use: {file} was not written")
    except OSError as error:
        why = error.strerror or str(error)
        raise ArchiveError(f"{file} cannot be written: {why}; make room or name another file") from error
    return offers


def _resolved(file: Path) -> Path:
    """The file that links lead to."""
    try:
        return file.resolve()
    except (OSError, RuntimeError) as error:  # RuntimeError: links that lead round in a circle, before Python 3.13
        raise ArchiveError(f"{file} leads to no place ({error}): name another file, in full") from error


@contextmanager
def _replacing(target: Path) -> Iterator[IO[bytes]]:
    """A new file beside the target that takes its place if all goes well, and else is gone."""
    beside = target.with_name(f".{target.name}.{uuid4().hex}")
    try:
        with beside.open("xb") as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        beside.replace(target)
    finally:
        with suppress(FileNotFoundError):
            beside.unlink()


def _write_state(archive: ZipFile, connection: Connection, used: Used, now: datetime) -> tuple[Member, Counter[str]]:
    size = rows = 0
    digest = sha256()
    checked = _Checked(now)
    with archive.open(_info(STATE), "w", force_zip64=True) as out:
        for provider, region in all_shelves(connection):
            if provider not in used.providers:
                continue
            found = _of_site(load_from(connection, (provider, region), now), used.sites.get(provider))
            lines = checked.lines(provider, found)
            data = b"".join(lines)
            out.write(data)
            digest.update(data)
            size += len(data)
            if size > LARGEST_STATE:
                raise ArchiveError(
                    f"the state has more than {LARGEST_STATE} bytes, which no import takes: leave providers out by "
                    "GPUFARE_ONLY, and write several files"
                )
            rows += len(lines)
    checked.tell()
    return Member(size, rows, digest.hexdigest()), checked.offers


def _of_site(offers: list[Offer], site: str | None) -> list[Offer]:
    """The offers but those of another site than the one that is set, which the server does not show either."""
    here = (offer for offer in offers if on_site(offer.place.provider, offer.place.region, site))
    return [offer for offer in here if site is None or offer.place.site in (None, site)]


class _Checked:
    """Makes the lines of a state, each read back as an import will read it: a single one that is refused there would
    make the whole file one that cannot be imported.
    """

    def __init__(self, now: datetime) -> None:
        self._now = now
        self._before: AnyLine | None = None
        self.offers: Counter[str] = Counter()
        """How many offers of each provider have a line."""
        self._left_out: Counter[str] = Counter()
        self._why: dict[str, str] = {}

    def lines(self, provider: str, offers: Sequence[Offer]) -> list[bytes]:
        """The lines of a region: those of its offers that an import takes, each after its machine."""
        written = self._taken(region_line(offers[0])) if offers else None
        if written is None:
            self._left_out.update({provider: len(offers)} if offers else {})
            return []
        lines = [written]
        for _, of_machine in groupby(sorted(offers, key=_order), key=lambda one: one.machine.instance_type):
            lines += self._machine(provider, list(of_machine))
        return lines

    def _machine(self, provider: str, offers: Sequence[Offer]) -> list[bytes]:
        """The lines of a machine and its offers; none where nothing of it is left."""
        before = self._before
        machine = self._taken(machine_line(offers[0]))
        lines = [] if machine is None else [self._taken(offer_line(offer, self._now)) for offer in offers]
        kept = [line for line in lines if line is not None]
        self.offers.update({provider: len(kept)} if kept else {})
        self._left_out.update({provider: len(offers) - len(kept)} if len(kept) < len(offers) else {})
        if machine is None or not kept:
            self._before = before
            return []
        return [machine, *kept]

    def _taken(self, line: AnyLine) -> bytes | None:
        """The line as it is written; None where an import would refuse it."""
        try:
            data = encoded(line)
            found = believed(data, self._now)
            in_order(self._before, found)
        except ValueError as error:
            self._why.setdefault(line.provider, f"{' '.join(filter(None, line.key))}: {error}")
            return None
        self._before = found
        return data

    def tell(self) -> None:
        """Log what was left out."""
        for provider, count in sorted(self._left_out.items()):
            structlog.get_logger().warning(
                "offers left out of the file, since no import would take them",
                provider=provider,
                offers=count,
                first=self._why[provider],
            )


def _order(offer: Offer) -> tuple[str, ...]:
    """By what its line is of, as that is written: a NUL is not."""
    key = (offer.machine.instance_type, offer.place.zone_key, offer.purchase.value)
    return tuple(part.replace("\0", "\ufffd") for part in key)


def _info(name: str) -> ZipInfo:
    info = ZipInfo(name, _EPOCH)
    info.compress_type = ZIP_DEFLATED
    info.external_attr = 0o644 << 16
    info.create_system = 3
    return info
