"""Shards: tar files of samples in WebDataset's format, and an index with the size, digest and samples of each.

    python3 -m training.shards FROM TO [--tokens N] [--bytes N] [--type uint8|uint16|uint32]

FROM is a file or a folder of files, in the order of their names, whose bytes are tokens: text, or with --type the
little-endian output of another tokenizer. It is split into samples of N tokens that overlap by one, which are dealt out
to the shards, so that each shard has samples from everywhere. Equal input gives equal digests. TO can be copied to any
store unchanged.
"""

from __future__ import annotations

import argparse
import bisect
import contextlib
import hashlib
import io
import json
import os
import re
import sys
import tarfile
import threading
import zlib
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from validation.options import OptionError, read

from .store import AGAIN, DataError, Held, Store

VERSION = 1
INDEX = "index.json"
INDEX_MAX = 2**28
TOKENS = 4097
BYTES = 64 * 2**20
TYPES = ("uint8", "uint16", "uint32")
SHARD_MAX = 2**32
AHEAD = 100
"""Steps before it is needed, a shard is opened."""
OPENERS = 4
"""Shards that are opened at once."""
BLOCK = 512
NAME = re.compile(rb"\d{12}-([0-9a-f]{8})\.tokens\0")


@dataclass(frozen=True)
class Shard:
    """A row of the index: a tar file and the number of its samples."""

    name: str
    bytes: int
    sha256: str
    samples: int

    def __post_init__(self) -> None:
        if not re.fullmatch(r"\w[\w.-]{0,250}", self.name, re.ASCII):
            raise ValueError(f"name: {self.name!r} is no plain file name")
        if not re.fullmatch(r"[0-9a-f]{64}", self.sha256):
            raise ValueError(f"sha256: {self.sha256!r} is none: 64 digits of 0-9a-f")
        if not 1 <= self.bytes <= SHARD_MAX or self.samples < 1:
            raise ValueError(f"a shard has 1 sample or more in at most {SHARD_MAX:,} bytes")


@dataclass(frozen=True)
class Index:
    """The index of a directory of shards."""

    version: int
    tokens: int
    """Tokens of one sample."""
    type: str
    vocabulary: int
    """Largest token plus one."""
    shards: tuple[Shard, ...]

    def __post_init__(self) -> None:
        if self.type not in TYPES:
            raise ValueError(f"knows no type {self.type!r}: it has {', '.join(TYPES)}")
        if self.tokens < 2 or not 1 <= self.vocabulary <= 2 ** (8 * self.width):
            raise ValueError("tokens must be 2 or more, vocabulary from 1 to what the type can hold")
        if not self.shards:
            raise ValueError("has no shards")
        for shard in self.shards:
            if (least := shard.samples * self.stride) > shard.bytes:
                raise ValueError(f"{shard.name}: {shard.samples:,} samples take {least:,} bytes, not {shard.bytes:,}")

    @property
    def width(self) -> int:
        """Bytes of a token."""
        return int(np.dtype(self.type).itemsize)

    @property
    def size(self) -> int:
        """Bytes of a sample."""
        return self.tokens * self.width

    @property
    def stride(self) -> int:
        """Bytes of a sample in its tar file, header included."""
        return stride(self.size)


def stride(size: int) -> int:
    """Distance in bytes between samples of this size in a tar file."""
    return BLOCK + -(-size // BLOCK) * BLOCK


def _index_of(store: Store) -> Index:
    where = f"{store.shown}/{INDEX}"
    try:
        given = json.loads(store.content(INDEX, INDEX_MAX))
        version = given.get("version") if isinstance(given, dict) else None
        if isinstance(version, int) and version > VERSION:
            raise DataError(
                f"{where}: has version {version}, newer than the {VERSION} that is known here: "
                "bring the workload up to date, or make the shards anew with this one"
            )
        found = read(Index, given, where)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: not JSON: {error}") from None
    except OptionError as error:
        raise DataError(str(error)) from None
    if found.version != VERSION:
        raise DataError(f"{where}: has version {found.version}, and {VERSION} is the first there was")
    return found


class Shards:
    """Samples of a given length, from shards that are opened when needed."""

    def __init__(self, store: Store, length: int) -> None:
        self.index = _index_of(store)
        self.vocabulary = self.index.vocabulary
        self.where = store.shown
        self.length = length
        if self.index.tokens < length + 1:
            raise DataError(
                f"{store.shown}/{INDEX}: its samples have {self.index.tokens:,} tokens, and a length of {length:,} "
                f"needs {length + 1:,}: make the shards with --tokens {length + 1}, or train with a length of at most "
                f"{self.index.tokens - 1:,}"
            )
        self.pieces = (self.index.tokens - 1) // length
        self.counts = [shard.samples * self.pieces for shard in self.index.shards]
        self._store = store
        self._open: dict[int, Future[_Members]] = {}
        self._until: dict[int, int] = {}
        self._openers = threading.Semaphore(OPENERS)

    @property
    def notices(self) -> list[str]:
        """Lines for the user about reads that had to be repeated."""
        return self._store.notices

    def want(self, shards: set[int], step: int, until: int) -> None:
        """Begin to open these shards, and close those not needed at `step`."""
        for shard in shards:
            self._until[shard] = max(until, self._until.get(shard, 0))
            if shard not in self._open:
                self._begin(shard)
        for shard in [shard for shard, last in self._until.items() if last < step]:
            del self._until[shard]
            _close(self._open.pop(shard))

    def tokens(self, shard: int, sample: int) -> np.ndarray:
        """Return the tokens of a sample. Read the shard again if it is damaged in the cache."""
        member, piece = divmod(sample, self.pieces)
        width = self.index.width
        place = piece * self.length * width, (self.length + 1) * width
        members = self._open[shard].result()
        try:
            found = members.read(member, *place)
        except DataError:
            if not members.held.forget():
                raise
            del self._open[shard]  # only the cached copy was damaged
            self._begin(shard)
            found = self._open[shard].result().read(member, *place)
        return np.frombuffer(found, np.dtype(self.index.type).newbyteorder("<"))

    def end(self) -> None:
        """Wake and end readers that wait for the store."""
        self._store.end()

    def close(self) -> None:
        """Close all open shards."""
        for future in self._open.values():
            _close(future)
        self._open.clear()

    def _begin(self, shard: int) -> None:
        future: Future[_Members] = Future()
        self._open[shard] = future
        threading.Thread(target=self._opened, args=(shard, future), name=f"shard-{shard}", daemon=True).start()

    def _opened(self, number: int, future: Future[_Members]) -> None:
        shard = self.index.shards[number]
        with self._openers:
            try:
                future.set_result(_Members(self._store.open(shard.name, shard.bytes, shard.sha256), self.index))
            except Exception as error:
                future.set_exception(error)


def _close(future: Future[_Members]) -> None:
    future.add_done_callback(lambda done: None if done.exception() else done.result().held.close())


class _Members:
    """The samples of a shard, by number: each at its place in the index, with its checksum in its name.

    A shard on a disk is therefore opened without reading it, and every read is verified. Nothing is unpacked, so that
    names have no effect.
    """

    def __init__(self, held: Held, index: Index) -> None:
        self.held, self._size, self._stride = held, index.size, index.stride

    def read(self, member: int, offset: int, size: int) -> bytes:
        both = self.held.read(member * self._stride, BLOCK + self._size)
        header, content = both[:BLOCK], both[BLOCK:]
        name = NAME.match(header)
        if not name or header[124:136].strip(b"\0 ") != b"%011o" % self._size:
            raise DataError(
                f"{self.held.where}: sample {member:,}: is not where its index has it: make the shards anew"
            )
        if (found := b"%08x" % zlib.crc32(content)) != name[1]:
            told = f"its crc32 is {found.decode()}, and its name says {name[1].decode()}"
            raise DataError(f"{self.held.where}: sample {member:,}: corrupt: {told}: {AGAIN}")
        return content[offset : offset + size]


def make(source: Path, target: Path, tokens: int = TOKENS, most: int = BYTES, kind: str = "uint8") -> tuple[Index, int]:
    """Make shards of at most `most` bytes; return the index, and the tokens at the end that fill no sample."""
    text = _Text(source, np.dtype(kind).newbyteorder("<"))
    samples = (text.tokens - 1) // (tokens - 1)
    if samples < 1:
        raise DataError(
            f"{source}: has {text.tokens:,} tokens, and a sample takes {tokens:,}: give more text, or fewer --tokens"
        )
    least = stride(tokens * text.kind.itemsize) + tarfile.RECORDSIZE
    if not least <= most <= SHARD_MAX:
        raise DataError(
            f"--bytes: {most:,} are not from {least:,}, which a tar file of one sample may take, to {SHARD_MAX:,}"
        )
    count = -(-samples // ((most - tarfile.RECORDSIZE) // stride(tokens * text.kind.itemsize)))
    target.mkdir(parents=True, exist_ok=True)
    if (target / INDEX).exists():
        raise DataError(f"{target}: has shards already: name another folder, or remove it")
    made, largest = [], 0
    with contextlib.closing(text):
        for number in range(count):
            shard, top = _make_one(text, range(number, samples, count), tokens, target / f"shard-{number:06d}.tar")
            made.append(shard)
            largest = max(largest, top)
    index = Index(VERSION, tokens, kind, 256 if kind == "uint8" else largest + 1, tuple(made))
    draft = target / f"{INDEX}.draft"
    draft.write_text(json.dumps(asdict(index), indent=1) + "\n")
    draft.replace(target / INDEX)  # the last thing that is written: without it there are no shards
    return index, text.tokens - 1 - samples * (tokens - 1)


def _make_one(text: _Text, numbers: range, tokens: int, path: Path) -> tuple[Shard, int]:
    largest = 0
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for number in numbers:
            content = text.read(number * (tokens - 1), tokens)
            largest = max(largest, int(np.frombuffer(content, text.kind).max()))
            # Leave out time and owner, so that all writers get the same bytes.
            member = tarfile.TarInfo(f"{number:012d}-{zlib.crc32(content):08x}.tokens")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return Shard(path.name, path.stat().st_size, digest, len(numbers)), largest


class _Text:
    """Return the tokens of all files, one after the other."""

    def __init__(self, source: Path, kind: np.dtype) -> None:
        self.kind = kind
        self.paths = [source]
        if source.is_dir():
            inside = (path for path in source.rglob("*") if not path.name.startswith(".") and path.is_file())
            self.paths = sorted(inside, key=lambda path: path.relative_to(source).as_posix())
        self._file: BinaryIO = io.BytesIO()
        self._number = -1
        self._ends: list[int] = []
        for path in self.paths:
            size = path.stat().st_size
            if size % kind.itemsize:
                raise DataError(f"{path}: has {size:,} bytes, which are no whole number of tokens of {kind.itemsize}")
            self._ends.append(size + (self._ends[-1] if self._ends else 0))
        self.tokens = (self._ends[-1] if self._ends else 0) // kind.itemsize

    def read(self, first: int, count: int) -> bytes:
        at, left = first * self.kind.itemsize, count * self.kind.itemsize
        found = bytearray()
        number = bisect.bisect_right(self._ends, at)
        while left:
            begin = self._ends[number - 1] if number else 0
            if self._number != number:
                self.close()
                self._file, self._number = self.paths[number].open("rb"), number
            piece = os.pread(self._file.fileno(), min(left, self._ends[number] - at), at - begin)
            if len(piece) < min(left, self._ends[number] - at):
                raise DataError(f"{self.paths[number]}: has become shorter while it was read")
            found += piece
            at, left, number = at + len(piece), left - len(piece), number + 1
        return bytes(found)

    def close(self) -> None:
        self._file.close()


def main(argv: Sequence[str]) -> int:
    """Write shards of text and their index, and return the exit status."""
    parser = argparse.ArgumentParser(prog="training.shards", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("source", metavar="FROM", type=Path, help="a file of text, or a folder of them")
    parser.add_argument("target", metavar="TO", type=Path, help="a folder that has no shards yet")
    parser.add_argument(
        "--tokens", type=int, default=TOKENS, help="of a sample: one more than the longest to train with"
    )
    parser.add_argument("--bytes", type=int, default=BYTES, help="of a shard, at most")
    parser.add_argument("--type", choices=TYPES, default=TYPES[0], help="of a token")
    arguments = parser.parse_args(argv)
    if arguments.tokens < 2:
        parser.error("--tokens: must be 2 or more: something, and what comes after it")
    try:
        index, left = make(arguments.source, arguments.target, arguments.tokens, arguments.bytes, arguments.type)
    except DataError as error:
        print(error, file=sys.stderr)
        return 2
    except OSError as error:
        print(f"{error.filename or arguments.target}: {error.strerror}", file=sys.stderr)
        return 2
    samples = sum(shard.samples for shard in index.shards)
    print(
        f"{arguments.target}: {len(index.shards):,} shards, {samples:,} samples of {index.tokens:,} tokens; "
        f"the last {left:,} tokens fill no sample and are left out"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
