"""Bodies as they were before compression: one cut off is noticed, and one that swells without end is given up."""

import zlib
from collections.abc import Iterable, Iterator

from collectors.base import Drift, Unavailable

ACCEPTED = "gzip"
"""The one compression that we ask for."""
MAX_BYTES = 2 * 1024**3
"""Far more than any answer: the largest price list is some 400 MB."""
PIECE_BYTES = 1024 * 1024
_GZIP = 16 + zlib.MAX_WBITS


def plain(chunks: Iterable[bytes], encoding: str, where: str, most: int = MAX_BYTES) -> Iterator[bytes]:
    """The body of these chunks under this `Content-Encoding`, in pieces of no more than a few MiB.

    Unavailable for a compressed stream that is broken or has no end; Drift for another encoding, or more than `most`.
    """
    if encoding.strip().lower() not in ("", "identity", "gzip", "x-gzip"):
        raise Drift(f"{where}: a body in the encoding {encoding:.40}, which was not asked for")
    size = 0
    for piece in _unzipped(chunks, where) if "gzip" in encoding.lower() else chunks:
        size += len(piece)
        if size > most:
            raise Drift(f"{where}: the body is larger than {most} bytes")
        yield piece


def _unzipped(chunks: Iterable[bytes], where: str) -> Iterator[bytes]:
    """A gzip stream of one member or several. Each ends with a trailer: without it the stream is cut off."""
    member = None
    for rest in chunks:
        while rest:
            member = member or zlib.decompressobj(_GZIP)
            try:
                yield from _pieces(member, rest)
            except zlib.error as error:
                raise Unavailable(f"{where}: the compressed answer is broken") from error
            rest, member = member.unused_data, None if member.eof else member
    if member is not None:
        raise Unavailable(f"{where}: the compressed answer is cut off")


def _pieces(member: "zlib._Decompress", data: bytes) -> Iterator[bytes]:
    """What a member gives for these bytes. A full piece may leave more of it inside, even with no byte left to read."""
    piece = data
    while piece and not member.eof:
        piece = member.decompress(data, PIECE_BYTES)
        data = member.unconsumed_tail
        yield piece
