"""Writing the current state to a file, for machines without a network."""

import os
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
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
from sqlalchemy import Connection, Engine

from catalog.offers import Offer
from store.archive import (
    FORMAT,
    LARGEST_STATE,
    MANIFEST,
    STATE,
    ArchiveError,
    Manifest,
    Member,
    encoded,
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

    One state is read, a region at a time. Raises ArchiveError, and leaves a file that was there, where it cannot be
    written or there is nothing to write.
    """
    target = file.resolve()
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
    offers: Counter[str] = Counter()
    with archive.open(_info(STATE), "w", force_zip64=True) as out:
        for provider, region in all_shelves(connection):
            if provider not in used.providers:
                continue
            found = _of_site(load_from(connection, (provider, region), now), used.sites.get(provider))
            lines = list(_lines(found, now))
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
            offers.update({provider: len(found)} if found else {})
    return Member(size, rows, digest.hexdigest()), offers


def _of_site(offers: list[Offer], site: str | None) -> list[Offer]:
    """The offers but those of another site than the one that is set, which the server does not show either."""
    return [offer for offer in offers if site is None or offer.place.site in (None, site)]


def _lines(offers: list[Offer], now: datetime) -> Iterator[bytes]:
    if offers:
        yield encoded(region_line(offers[0]))
    ordered = sorted(offers, key=lambda one: (one.machine.instance_type, one.place.zone_key, one.purchase.value))
    for _, of_machine in groupby(ordered, key=lambda one: one.machine.instance_type):
        first, *more = of_machine
        yield encoded(machine_line(first))
        yield from (encoded(offer_line(offer, now)) for offer in (first, *more))


def _info(name: str) -> ZipInfo:
    info = ZipInfo(name, _EPOCH)
    info.compress_type = ZIP_DEFLATED
    info.external_attr = 0o644 << 16
    info.create_system = 3
    return info
