"""Sources of shards, and their cache."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fsspec
import numpy as np
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from training import corpus, shards, store
from training.data import Stream
from training.settings import Data
from training.store import DataError, Held, Store

from tests.project import wait_for

AGAIN = "bring it there again, or make the shards anew (python3 -m training.shards)"
CONTENT = bytes(range(256)) * 16
DIGEST = hashlib.sha256(CONTENT).hexdigest()
WORKLOADS = Path(shards.__file__).parents[1]


class Troubled(MemoryFileSystem):  # type: ignore[misc]
    """Files in memory that fail as often as the test says."""

    protocol = "troubled"
    failures: list[Exception] = []  # noqa: RUF012 (of all of them, as its store is)
    opened: list[str] = []  # noqa: RUF012

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(super()._strip_protocol(path.replace(f"{cls.protocol}://", "memory://")))

    def _open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        if mode == "rb":
            self.opened.append(path)
            if self.failures:
                raise self.failures.pop(0)
        return super()._open(path, mode, **options)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(store, "PAUSE", 0.001)
    fsspec.register_implementation("troubled", Troubled, clobber=True)
    Troubled.failures, Troubled.opened = [], []
    yield
    MemoryFileSystem.store.clear()


@pytest.fixture(params=["directory", "memory://", "file://", "troubled://"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A place with a single file."""
    if request.param in ("directory", "file://"):
        (tmp_path / "from").mkdir()
        (tmp_path / "from/a.tar").write_bytes(CONTENT)
        return str(tmp_path / "from") if request.param == "directory" else f"file://{tmp_path}/from"
    return in_memory(request.param)


def in_memory(protocol: str = "troubled://") -> str:
    with fsspec.open(f"{protocol}bucket/from/a.tar", "wb") as file:
        file.write(CONTENT)
    return f"{protocol}bucket/from"


def opened(there: Store, name: str = "a.tar", size: int = len(CONTENT), digest: str = DIGEST) -> Held:
    return there.open(name, size, digest)


def refused(there: Store, **values: Any) -> str:
    with pytest.raises(DataError) as caught:
        opened(there, **values)
    return str(caught.value)


def cached(cache: Path) -> list[str]:
    return sorted(path.name for path in cache.iterdir() if not path.name.startswith("lock-"))


@pytest.mark.parametrize("with_cache", [False, True])
def test_a_file_comes_from_anywhere(source: str, tmp_path: Path, with_cache: bool) -> None:
    there = Store(source, str(tmp_path / "deep/cache") if with_cache else "")
    held = opened(there)
    assert held.read(0, 4096) == CONTENT
    assert held.read(300, 5) == CONTENT[300:305]
    assert there.content("a.tar", 5000) == CONTENT
    assert there.notices == []
    if with_cache:
        assert cached(tmp_path / "deep/cache") == [f"{DIGEST}.shard"]


@pytest.mark.parametrize("with_cache", [False, True])
def test_faults_of_files_are_named(source: str, tmp_path: Path, with_cache: bool) -> None:
    """The error has the place, and nothing of the file stays in the cache."""
    there = Store(source, str(tmp_path / "cache") if with_cache else "")
    assert refused(there, name="b.tar") == f"{source}/b.tar: is missing: {AGAIN}"
    assert refused(there, size=5000) == (
        f"{source}/a.tar: truncated: it has 4,096 bytes, and its index says 5,000: {AGAIN}"
    )
    assert refused(there, size=4000) == f"{source}/a.tar: has more than the 4,000 bytes that its index says: {AGAIN}"
    if with_cache or "://" in source:  # a directory is read in place, where each sample is checked
        assert refused(there, digest="ab" * 32) == (
            f"{source}/a.tar: corrupt: its sha256 is {DIGEST[:12]}…, and its index says abababababab…: {AGAIN}"
        )
    if with_cache:
        assert cached(tmp_path / "cache") == []
    assert there.notices == []


def test_a_store_that_fails_for_a_moment_is_asked_again(tmp_path: Path) -> None:
    there = Store(in_memory(), str(tmp_path / "cache"))
    Troubled.failures = [TimeoutError("slow down"), ConnectionError("reset")]
    assert opened(there).read(0, 4096) == CONTENT
    assert len(Troubled.opened) == 3


def test_a_store_that_goes_on_failing_is_told() -> None:
    """The error has the library's message, for any kind of error."""
    there = Store(in_memory())
    Troubled.failures = [RuntimeError("503 slow down")] * 3
    said = "cannot be read: RuntimeError: 503 slow down; tried 3 times"
    assert refused(there) == f"troubled://bucket/from/a.tar: {said}"
    Troubled.failures = [RuntimeError("503 slow down")] * 3
    with pytest.raises(DataError, match=said):
        there.content("a.tar", 5000)


def test_a_server_that_does_not_answer_is_not_a_missing_file() -> None:
    """Fsspec reports it as a missing file."""
    not_found = FileNotFoundError("from/a.tar")
    not_found.__cause__ = ConnectionError("Cannot connect to host")
    there = Store(in_memory())
    Troubled.failures = [not_found]
    assert opened(there).read(0, 4096) == CONTENT
    Troubled.failures = [not_found] * 3
    said = "is not found: ConnectionError: Cannot connect to host; tried 3 times"
    assert refused(there) == f"troubled://bucket/from/a.tar: {said}"
    not_found.__cause__ = FileNotFoundError("404")
    Troubled.failures = [not_found]
    assert refused(there) == f"troubled://bucket/from/a.tar: is missing: {AGAIN}"


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*arguments: object, **options: object) -> None:
        raise PermissionError(13, "Permission denied", "x")

    monkeypatch.setattr(Path, "open", denied)
    assert refused(Store(str(tmp_path))) == f"{tmp_path}/a.tar: cannot be read: Permission denied; tried 3 times"


def test_a_place_that_nobody_knows() -> None:
    with pytest.raises(DataError) as caught:
        Store("nowhere://bucket/x")
    assert str(caught.value) == (
        "nowhere://bucket/x: cannot be reached: ValueError: Protocol not known: nowhere: "
        "pip install fsspec, and what it asks for, in the environment that trains"
    )


def test_secrets_in_a_url_are_never_shown() -> None:
    """Neither the place nor a library's error shows them."""
    url = "troubled://me:hunter2@bucket/from?token=geheim"
    there = Store(url)
    Troubled.failures = [RuntimeError(f"no access to {url}")] * 3
    said = refused(there)
    assert "hunter2" not in said
    assert "geheim" not in said
    assert said.startswith("troubled://…@bucket/from?…/a.tar: cannot be read: RuntimeError: no access to troubled://…@")
    with pytest.raises(DataError) as caught:
        Store("nowhere://me:hunter2@bucket/x")
    assert "hunter2" not in str(caught.value)


def test_a_file_is_fetched_once(tmp_path: Path) -> None:
    for _ in range(3):
        assert opened(Store(in_memory(), str(tmp_path / "cache"))).read(0, 9) == CONTENT[:9]
    assert len(Troubled.opened) == 1


def test_a_cached_file_of_another_size_is_fetched_anew(tmp_path: Path) -> None:
    (tmp_path / f"{DIGEST}.shard").write_bytes(CONTENT[:100])
    assert opened(Store(in_memory(), str(tmp_path))).read(0, 4096) == CONTENT
    assert (tmp_path / f"{DIGEST}.shard").read_bytes() == CONTENT


def test_files_of_a_killed_rank_are_removed(tmp_path: Path) -> None:
    """Unfinished files of running ranks stay."""
    other = tmp_path / f"{'ab' * 32}.x.part"
    for path in (tmp_path / f"{DIGEST}.x.part", other):
        path.write_bytes(b"half")
    opened(Store(in_memory(), str(tmp_path)))
    assert cached(tmp_path) == sorted([f"{DIGEST}.shard", other.name])


def make_shards(folder: Path) -> str:
    (folder / "text").write_bytes(b"".join(corpus.page(number, 1000) for number in range(40)))
    made, _ = shards.make(folder / "text", folder / "shards", tokens=65, most=80 * 1024)
    assert len(made.shards) == 9
    return str(folder / "shards")


def steps_of(source: str, cache: Path | str, steps: int = 160) -> tuple[np.ndarray, list[str]]:
    stream = Stream(Data(source, str(cache)), 8, 32, range(8), 1)
    try:
        return np.stack([next(stream)[1] for _ in range(steps)]), stream.notices
    finally:
        stream.close()


@pytest.fixture
def remote(tmp_path: Path) -> str:
    """Shards in memory, and the tokens that they have in a directory."""
    folder = make_shards(tmp_path)
    for path in Path(folder).iterdir():
        fsspec.filesystem("troubled").pipe(f"/bucket/shards/{path.name}", path.read_bytes())
    return "troubled://bucket/shards"


def test_a_stream_is_the_same_from_anywhere(remote: str, tmp_path: Path) -> None:
    local, _ = steps_of(str(tmp_path / "shards"), "")
    for cache in ("", tmp_path / "cache"):
        found, notices = steps_of(remote, cache)
        assert np.array_equal(found, local)
        assert notices == []
    assert len(cached(tmp_path / "cache")) == 9


def test_a_cached_shard_that_has_gone_bad_is_fetched_anew(remote: str, tmp_path: Path) -> None:
    """The shard is fetched again without an error."""
    local, _ = steps_of(remote, tmp_path / "cache")
    for path in (tmp_path / "cache").glob("*.shard"):
        path.write_bytes(bytes(path.stat().st_size))
    Troubled.opened.clear()
    found, notices = steps_of(remote, tmp_path / "cache")
    assert np.array_equal(found, local)
    assert notices == []
    assert len([path for path in Troubled.opened if path.endswith(".tar")]) == 9
    for path in (tmp_path / "cache").glob("*.shard"):
        assert hashlib.sha256(path.read_bytes()).hexdigest() == path.stem


def test_a_corrupt_shard_ends_the_stream(remote: str, tmp_path: Path) -> None:
    with fsspec.open(f"{remote}/shard-000004.tar", "r+b") as file:
        file.seek(520)
        file.write(b"\0")
    with pytest.raises(DataError, match=r"^troubled://bucket/shards/shard-000004\.tar: corrupt: its sha256 is "):
        steps_of(remote, tmp_path / "cache")


@pytest.mark.parametrize("kind", ["a file", "read-only", "full"])
def test_without_a_usable_cache_it_goes_on(
    remote: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """The notice appears once for all shards."""
    cache = tmp_path / "cache"
    if kind == "a file":
        cache.write_text("")
        why = "File exists"
    elif kind == "read-only":
        why = "Read-only file system"
        monkeypatch.setattr(tempfile, "mkstemp", _failing(OSError(30, why)))
    else:
        why = "No space left on device"
        monkeypatch.setattr(os, "utime", _failing(OSError(28, why)))  # this part is not needed
        monkeypatch.setattr(Path, "replace", _failing(OSError(28, why)))
    found, notices = steps_of(remote, cache)
    assert np.array_equal(found, steps_of(str(tmp_path / "shards"), "")[0])
    assert notices == [f"{cache}: cannot be used as a cache: {why}: shards are read without one"]
    assert not cache.is_dir() or cached(cache) == []


def _failing(error: Exception) -> Any:
    def fails(*arguments: object, **options: object) -> None:
        raise error

    return fails


def test_a_disk_that_fills_up_while_a_file_comes(tmp_path: Path) -> None:
    """A real file system of 64 KiB is filled, if this user may mount one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)]
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import hashlib\n"
        "from training.store import Store\n"
        "content = bytes(10**6)\n"
        "there = Store(sys.argv[2], sys.argv[3], room=10**9)\n"
        "held = there.open('a', len(content), hashlib.sha256(content).hexdigest())\n"
        "print(len(held.read(0, 10**6)), there.notices)\n"
    )
    (tmp_path / "a").write_bytes(bytes(10**6))
    run = [sys.executable, "-c", program, str(WORKLOADS), f"file://{tmp_path}", str(disk)]
    script = 'mount -t tmpfs -o size=64k tmpfs "$1" || exit 77; shift; "$@"; ls "$(readlink -f "$6")"'
    done = subprocess.run(
        ["unshare", "--map-root-user", "--mount", "sh", "-c", script, "sh", mount[-1], *run],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if done.returncode in (1, 77) and not done.stdout:
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
    said = f"{disk}: cannot be used as a cache: No space left on device: shards are read without one"
    assert done.stdout.splitlines()[0] == f"1000000 ['{said}']", done.stderr
    assert not [name for name in done.stdout.splitlines()[1:] if not name.startswith("lock-")]


def fill(filesystem: Any, number: int, size: int = 1000) -> tuple[str, int, str]:
    content = bytes([number]) * size
    filesystem.pipe(f"/bucket/{number}", content)
    return str(number), size, hashlib.sha256(content).hexdigest()


def test_a_cache_keeps_to_its_room(tmp_path: Path) -> None:
    """The oldest files are removed; a reader can finish reading one."""
    there = Store("troubled://bucket", str(tmp_path), room=3500)
    files = [fill(there._filesystem, number) for number in range(5)]
    held = []
    for number, file in enumerate(files[:3]):
        held.append(there.open(*file))
        os.utime(tmp_path / f"{file[2]}.shard", (number, number))
    there.open(*files[0])  # is needed again
    there.open(*files[3])
    assert set(cached(tmp_path)) == {f"{file[2]}.shard" for file in (files[0], files[2], files[3])}
    assert held[1].read(0, 1000) == bytes([1]) * 1000
    assert there.notices == []


def test_a_file_that_is_larger_than_the_cache(tmp_path: Path) -> None:
    there = Store("troubled://bucket", str(tmp_path), room=900)
    assert there.open(*fill(there._filesystem, 7)).read(0, 2) == b"\7\7"
    assert there.notices == [
        f"{tmp_path}: cannot be used as a cache: 7 has 1,000 bytes, more than the 900 that it may take: "
        "shards are read without one"
    ]


def test_a_cache_takes_half_of_what_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own files count as free space."""

    def usage(path: Path) -> SimpleNamespace:
        return SimpleNamespace(free=5000 - sum(each.stat().st_size for each in path.glob("*.shard")))

    monkeypatch.setattr(shutil, "disk_usage", usage)
    there = Store("troubled://bucket", str(tmp_path))
    for number in range(5):
        there.open(*fill(there._filesystem, number))
    assert len(cached(tmp_path)) == 2


READER = """
import sys; sys.path.insert(0, sys.argv[1])
import fsspec, time
from fsspec.implementations.local import LocalFileSystem
from training import store
from training.data import Stream
from training.settings import Data

class Slow(LocalFileSystem):
    protocol = "slow"
    def _open(self, path, mode="rb", **options):
        with open(sys.argv[4], "a") as log:
            log.write(path + "\\n")
        time.sleep(float(sys.argv[5]))
        return super()._open(path, mode, **options)

fsspec.register_implementation("slow", Slow)
stream = Stream(Data("slow://" + sys.argv[2], sys.argv[3]), 8, 32, range(8), 1)
for step, tokens in stream:
    if step == 160:
        break
print(tokens.sum(), stream.notices, flush=True)
stream.close()
"""


def reader(source: str, cache: Path, log: Path, pause: float) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", READER, str(WORKLOADS), source, str(cache), str(log), str(pause)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


def test_ranks_of_a_node_fetch_a_shard_once_together(tmp_path: Path) -> None:
    source, cache, log = make_shards(tmp_path), tmp_path / "cache", tmp_path / "log"
    ranks = [reader(source, cache, log, 0.2) for _ in range(4)]
    said = {rank.communicate(timeout=120)[0] for rank in ranks}
    assert len(said) == 1
    assert said.pop().endswith(" []\n")
    fetched = [line for line in log.read_text().splitlines() if line.endswith(".tar")]
    assert len(fetched) == len(set(fetched)) == 9
    assert len(cached(cache)) == 9


def test_a_rank_that_is_killed_while_it_fetches_holds_nobody_up(tmp_path: Path) -> None:
    source, cache, log = make_shards(tmp_path), tmp_path / "cache", tmp_path / "log"
    first = reader(source, cache, log, 1.5)
    wait_for(lambda: list(cache.glob("*.part")), 60)
    first.send_signal(signal.SIGKILL)
    first.wait()
    assert list(cache.glob("*.part"))
    assert reader(source, cache, log, 0).communicate(timeout=60)[0].endswith(" []\n")
    assert not list(cache.glob("*.part"))


def test_closing_does_not_wait_for_what_is_being_fetched(remote: str, tmp_path: Path) -> None:
    """It does not wait for locks of other processes either."""
    gate = threading.Event()

    class Hanging(Troubled):
        protocol = "hanging"

        def _open(self, path: str, mode: str = "rb", **options: Any) -> Any:
            if path.endswith(".tar"):
                gate.wait(60)
            return super()._open(path, mode, **options)

    fsspec.register_implementation("hanging", Hanging, clobber=True)
    source = remote.replace("troubled", "hanging")
    one = Stream(Data(source, str(tmp_path / "cache")), 8, 32, range(8), 1)
    wait_for(lambda: list((tmp_path / "cache").glob("*.part")), 20)
    other = Stream(Data(source, str(tmp_path / "cache")), 8, 32, range(8), 1)
    closer = threading.Thread(target=other.close)
    closer.start()
    closer.join(20)
    assert not closer.is_alive()
    assert not other._reader.is_alive()
    gate.set()
    one.close()
