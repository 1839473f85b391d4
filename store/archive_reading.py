"""Reading a file of `gpufare snapshot export`: everything is checked, and nothing in it is trusted."""

import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import IO
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile

import msgspec

from catalog.offers import SKEW
from store.archive import (
    FIRST_TIME,
    FORMAT,
    LARGEST_STATE,
    LONGEST_LINE,
    MANIFEST,
    STATE,
    AnyLine,
    ArchiveError,
    MachineLine,
    Manifest,
    Member,
    OfferLine,
    RegionLine,
    Version,
    believed,
    in_order,
)

LARGEST_MANIFEST = 1 << 16
_DAMAGE = (BadZipFile, zlib.error, EOFError, RuntimeError, struct.error, ValueError, OSError, OverflowError)
"""What reading a zip raises where its bytes are not as they should be."""
_EXPORT_AGAIN = "export it again, or copy it again"


@dataclass(frozen=True, slots=True)
class Archive:
    """An open file whose manifest holds."""

    file: Path
    manifest: Manifest
    _zip: ZipFile

    def lines(self) -> Iterator[AnyLine]:
        """Every line in order, each checked as it comes, and all of them against the manifest at the end.

        Raises ArchiveError for what does not hold. One line is in memory at a time.
        """
        before: AnyLine | None = None
        region: tuple[str, ...] = ()
        machine: tuple[str, ...] = ()
        for number, data in enumerate(self._raw_lines(), start=1):
            line = self._decoded(number, data)
            if isinstance(before, MachineLine) and not isinstance(line, OfferLine):
                raise self._wrong(number - 1, "the machine has no offer")
            self._in_order(number, before, line)
            if isinstance(line, RegionLine):
                region = line.key
            if isinstance(line, MachineLine):
                machine = line.key
            if line.key[:2] != region or (isinstance(line, OfferLine) and line.key[:3] != machine):
                raise self._wrong(number, "what it is of does not stand before it")
            before = line
            yield line
        if isinstance(before, MachineLine):
            raise self._wrong(self.manifest.members[STATE].rows, "the machine has no offer")

    def _decoded(self, number: int, data: bytes) -> AnyLine:
        try:
            return believed(data, self.manifest.created_at)
        except ValueError as error:
            raise self._wrong(number, str(error)) from error

    def _in_order(self, number: int, before: AnyLine | None, line: AnyLine) -> None:
        try:
            in_order(before, line)
        except ValueError as error:
            raise self._wrong(number, str(error)) from error

    def _raw_lines(self) -> Iterator[bytes]:
        stated = self.manifest.members[STATE]
        digest, rows, size = sha256(), 0, 0
        with self._unpacked() as member:
            while data := self._next(member, rows):
                rows, size = rows + 1, size + len(data)
                if not data.endswith(b"\n"):
                    raise self._wrong(rows, f"it has no end, or more than {LONGEST_LINE} bytes")
                if rows > stated.rows or size > stated.bytes:
                    raise self._wrong(rows, "there is more than the manifest says")
                digest.update(data)
                yield data
        if Member(size, rows, digest.hexdigest()) != stated:
            raise _refused(self.file, f"{STATE} is not what {MANIFEST} says: {_EXPORT_AGAIN}")

    @contextmanager
    def _unpacked(self) -> Iterator[IO[bytes]]:
        try:
            member = self._zip.open(STATE)
        except _DAMAGE as error:
            raise _damaged(self.file, STATE, error) from error
        with member:
            yield member

    def _next(self, member: IO[bytes], rows: int) -> bytes:
        try:
            return member.readline(LONGEST_LINE)
        except _DAMAGE as error:
            raise _damaged(self.file, f"{STATE}, after line {rows},", error) from error

    def _wrong(self, number: int, why: str) -> ArchiveError:
        return _refused(self.file, f"{STATE} line {number}: {why}")


@contextmanager
def opened(file: Path, now: datetime) -> Iterator[Archive]:
    """The file, its manifest checked. Raises ArchiveError for what is no such file, or is of a newer format."""
    with _data(file) as data:
        try:
            archive = ZipFile(data)
        except _DAMAGE as error:
            raise _refused(file, f"it is no snapshot, or damaged ({error}): {_EXPORT_AGAIN}") from error
        with archive:
            yield Archive(file, _manifest(file, archive, now), archive)


@contextmanager
def _data(file: Path) -> Iterator[IO[bytes]]:
    if file.exists() and not file.is_file():
        raise _refused(file, "it is no file")
    try:
        data = file.open("rb")
    except OSError as error:
        raise _refused(file, error.strerror or str(error)) from error
    with data:
        yield data


def _manifest(file: Path, archive: ZipFile, now: datetime) -> Manifest:
    members = archive.infolist()
    names = sorted(member.filename for member in members)
    if MANIFEST not in names:
        raise _refused(file, f"it is no snapshot: it has no {MANIFEST}")
    if any(member.flag_bits & 1 or member.compress_type not in (ZIP_STORED, ZIP_DEFLATED) for member in members):
        raise _refused(file, f"a member is encrypted, or compressed otherwise than by deflate: {_EXPORT_AGAIN}")
    manifest = _decoded(file, _small(file, archive, MANIFEST))
    if names != sorted({MANIFEST, *manifest.members}) or manifest.members.keys() != {STATE}:
        raise _refused(file, f"it holds {', '.join(names)} in the place of {MANIFEST} and {STATE}: {_EXPORT_AGAIN}")
    stated = manifest.members[STATE]
    if stated.bytes > LARGEST_STATE or archive.getinfo(STATE).file_size != stated.bytes or not stated.rows:
        raise _refused(file, f"{STATE} is empty, too large, or not of the size that {MANIFEST} says: {_EXPORT_AGAIN}")
    if manifest.created_at < FIRST_TIME:
        raise _refused(file, f"{MANIFEST}: it was not made in {manifest.created_at.year}")
    if manifest.created_at > now + SKEW:
        made = f"{manifest.created_at:%Y-%m-%d %H:%M} UTC"
        raise _refused(file, f"it was made at {made}, which is still to come here: set the clock that is wrong")
    return manifest


def _small(file: Path, archive: ZipFile, name: str) -> bytes:
    try:
        with archive.open(name) as member:
            data = member.read(LARGEST_MANIFEST + 1)
    except _DAMAGE as error:
        raise _damaged(file, name, error) from error
    if len(data) > LARGEST_MANIFEST:
        raise _refused(file, f"{name} has more than {LARGEST_MANIFEST} bytes")
    return data


def _decoded(file: Path, data: bytes) -> Manifest:
    try:
        version = msgspec.json.decode(data, type=Version)
        if version.format > FORMAT:
            written = f"{version.program} wrote it in format {version.format}, and this version reads format {FORMAT}"
            raise _refused(file, f"{written}: import it with {version.program} or later")
        if version.format < FORMAT:
            raise _refused(file, f"there is no format {version.format}: {_EXPORT_AGAIN}")
        return msgspec.json.decode(data, type=Manifest)
    except (ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise _refused(file, f"{MANIFEST}: {error}") from error


def _damaged(file: Path, what: str, error: BaseException) -> ArchiveError:
    return _refused(file, f"{what} is damaged ({error}): {_EXPORT_AGAIN}")


def _refused(file: Path, why: str) -> ArchiveError:
    return ArchiveError(f"{file} cannot be imported: {why}; nothing was changed")
