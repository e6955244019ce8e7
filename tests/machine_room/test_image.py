"""Node images: complete or absent, created once, named by their content."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from stampworks import catalog
from stampworks import machine_room as room
from stampworks.machine_room.commands import CONTAINED
from stampworks.machine_room.specs import ImageSpec

from tests.project import wait_for

pytestmark = pytest.mark.cluster


@pytest.fixture
def spec() -> ImageSpec:
    """The base system of the newest release, which the cache contains, without packages."""
    row = catalog.releases()[catalog.newest_release()]
    return ImageSpec(row.suite, row.base_packages, (), runs_containers=False)


@pytest.fixture
def cache(image: room.NodeImage, state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own that borrows the base system and the (empty) repository from the user's."""
    images = tmp_path / "cache" / "images"
    images.mkdir(parents=True)
    for path in (Path(image.layers[-1]).parent, Path(image.packages).parent):
        (images / path.name).symlink_to(path)
    monkeypatch.setenv("STAMPWORKS_CACHE", str(tmp_path / "cache"))
    return images


def made(spec: ImageSpec, content: str) -> room.NodeImage | None:
    """The image, if it is there."""
    image = room.image_of(spec, content)
    return image if all(Path(layer).exists() for layer in image.layers) else None


def _ssh(builder: room.Builder, command: str) -> str:
    known = Path(builder.identity_file).with_name("known")
    known.write_text(f"{builder.address} {builder.host_key}\n")
    options = ["-F", "none", "-i", builder.identity_file, "-o", f"UserKnownHostsFile={known}", "-o", "BatchMode=yes"]
    argv = [*builder.reach, "ssh", *options, f"root@{builder.address}", command]
    return subprocess.run(argv, capture_output=True, text=True, timeout=30, check=True).stdout


def _drafts(cache: Path) -> list[str]:
    return [path.name for path in cache.iterdir() if path.name.startswith(".") and path.name != ".lock"]


def test_roles_become_a_layer(cache: Path, spec: ImageSpec) -> None:
    """The builder is reached over ssh; its disk becomes the image, without its identity. The next call finds it."""
    calls: list[str] = []

    def install(builder: room.Builder) -> None:
        calls.append(_ssh(builder, "echo installed >/usr/local/it; hostname; ls /exports/.packages"))

    assert made(spec, "content") is None
    image = room.ensure_image(spec, install, "content", calls.append)
    host, *packages = calls[1].split()
    assert host == "builder"
    assert {"Packages", "Release", "bindfs", "libfaketime"} <= {name.split("_")[0] for name in packages}
    layer = Path(image.layers[0])
    assert (layer / "usr/local/it").read_text() == "installed\n"
    assert not list(layer.glob("etc/ssh/ssh_host_*"))
    assert not (layer / "etc/hostname").exists()
    assert not (layer / "root/.ssh/authorized_keys").exists()
    assert not list(layer.glob("etc/stampworks/services/*/supervise"))
    assert room.ensure_image(spec, install, "content", calls.append) == image == made(spec, "content")
    assert len(calls) == 3, "found, not made again"
    assert made(spec, "other content") is None
    assert _drafts(cache) == []


def test_a_failed_installation_leaves_no_image(cache: Path, spec: ImageSpec) -> None:
    """Its error is unchanged, and no partial image stays."""

    def install(builder: room.Builder) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        room.ensure_image(spec, install, "content", print)
    assert made(spec, "content") is None
    assert _drafts(cache) == []


def test_a_killed_build_leaves_no_builder_and_no_image(cache: Path, spec: ImageSpec) -> None:
    """The builder ends with the command that started it, and the next command starts again."""
    program = (
        "import time; from stampworks.machine_room import ensure_image\n"
        "from stampworks.machine_room.specs import ImageSpec\n"
        "def install(builder):\n    print(builder.instance, flush=True)\n    time.sleep(60)\n"
        f"ensure_image({spec!r}, install, 'content', lambda text: None)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as build:
        assert build.stdout is not None
        pid = int(build.stdout.readline().partition("-")[0])
        assert Path(f"/proc/{pid}").exists()
        build.kill()
    wait_for(lambda: not Path(f"/proc/{pid}").exists(), 10)
    assert made(spec, "content") is None
    assert room.ensure_image(spec, lambda builder: None, "content", print) == made(spec, "content")
    assert _drafts(cache) == []


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"suite": "forky"}, id="suite"),
        pytest.param({"base_packages": ("python3",)}, id="base packages"),
        pytest.param({"packages": ("iperf3",)}, id="packages of the installation"),
    ],
)
def test_an_image_is_named_by_what_went_into_it(cache: Path, spec: ImageSpec, change: dict[str, Any]) -> None:
    """Another suite or other packages make another image."""
    other = dataclasses.replace(spec, **change)
    assert room.image_of(other, "content").digest != room.image_of(spec, "content").digest


def test_the_base_system_holds_nothing_of_this_host(image: room.NodeImage) -> None:
    """The image has no mirror, resolver, name or host keys: each node has its own or none."""
    tree = Path(image.layers[-1])
    for trace in ("etc/apt/sources.list", "etc/resolv.conf", "etc/hostname", "etc/apt/apt.conf.d/99mmdebstrap"):
        assert not (tree / trace).exists()
    assert not list(tree.glob("etc/ssh/ssh_host_*"))
    assert not list(tree.glob("etc/apt/sources.list.d/*"))
    assert (tree / "usr/sbin/stampworks-init").stat().st_mode & 0o777 == 0o755
    assert tree.stat().st_uid == os.geteuid()


BUILD = """
import sys
from stampworks.machine_room import ensure_image
from stampworks.machine_room.specs import ImageSpec
spec = {spec!r}
image = ensure_image(spec, lambda builder: None, "content", lambda text: print(text, flush=True))
print("image", image.layers[0], flush=True)
"""


def _build(spec: ImageSpec, cache: Path, *prefix: str) -> subprocess.Popen[str]:
    """Run a build in a separate process with a separate cache."""
    command = [*prefix, sys.executable, "-c", BUILD.format(spec=spec)]
    environment = {**os.environ, "STAMPWORKS_CACHE": str(cache)}
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return subprocess.Popen(command, env=environment, text=True, **streams)  # type: ignore[call-overload,no-any-return]


def _traces(cache: Path) -> list[str]:
    """Processes and mounts that still have to do with a cache."""
    found = []
    for file in (path for name in ("cmdline", "mountinfo") for path in Path("/proc").glob(f"[0-9]*/{name}")):
        try:
            if str(cache).encode() in file.read_bytes():
                found.append(str(file))
        except OSError:
            continue  # it ended meanwhile
    return found


def test_a_full_disk_is_named_and_nothing_stays(spec: ImageSpec, tmp_path: Path) -> None:
    """The error has the program's message and names the folder; the space is freed."""
    cache = tmp_path / "cache"
    cache.mkdir()
    small = f'mount -t tmpfs -o size=40m none {cache} && "$@" || ls -A {cache}/images'
    with _build(spec, cache, *CONTAINED, "sh", "-c", small, "sh") as build:
        said, _ = build.communicate(timeout=300)
    lines = said.splitlines()
    assert "No space left on device" in next(line for line in lines if "node image: cannot install Debian" in line)
    hint = next(line for line in lines if line.startswith("  hint: make room: "))
    assert f"{cache} has " in hint
    assert lines[-1] == ".lock", said


@pytest.mark.long
@pytest.mark.parametrize("moment", ["base system: installing", "packages: looking", "builder booted"])
def test_a_build_that_was_killed_starts_afresh(spec: ImageSpec, tmp_path: Path, moment: str) -> None:
    """A build that was killed at any moment is not continued or used, and its remains are removed from the cache."""
    cache = tmp_path / "cache"
    with _build(dataclasses.replace(spec, packages=("iperf3",)), cache) as build:
        assert build.stdout is not None
        assert next((line for line in build.stdout if line.startswith(moment)), None)
        build.kill()
    deadline = time.monotonic() + 20
    while traces := _traces(cache):
        assert time.monotonic() < deadline, traces
        time.sleep(0.1)
    with _build(spec, cache) as first, _build(spec, cache) as second:
        said = [build.communicate(timeout=600)[0].splitlines() for build in (first, second)]
    assert said[0][-1] == said[1][-1]
    assert said[0][-1].startswith("image "), said
    assert sum("base system: done after" in line for lines in said for line in lines) <= 1, "the other one waited"
    assert _drafts(cache / "images") == []
