"""The image that nodes boot from: a base system, packages, and the result of installing them.

Each of the three is a folder of the cache, named by a digest of everything that goes into it. A folder is made under
another name and renamed when it is complete, so an existing folder can be used.
"""

from __future__ import annotations

import hashlib
import json
import platform
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from stampworks.machine_room import apt, disks, files, nodes, programs, retention, rooms
from stampworks.machine_room.commands import CONTAINED, MAPPED_ROOT, run
from stampworks.machine_room.disks import NodeImage
from stampworks.machine_room.errors import RoomError
from stampworks.machine_room.room import Progress, Room
from stampworks.machine_room.specs import GroupSpec, ImageSpec, NetworkSpec, NodeSpec
from stampworks.state import paths

WHERE = "node image"
TREE = Path(__file__).with_name("tree")
"""Files that the machine room adds to Debian: the first process, the sshd service and its settings."""

NEEDED = ("iproute2", "openssh-server", "runit")
"""Packages that those files run; every base system has them."""

BREAKING = ("bindfs", "libfaketime")
"""Packages that some faults need. They are in the repository of the image, and not installed on nodes."""

ON_NODES = ("kubelet",)
"""Programs of Kubernetes that nodes run."""

FORMAT = 2
"""Part of every digest. Increment it when this module makes another result from the same inputs."""

BUILD_TIMEOUT_S = 3600

BUILDER = NodeSpec("builder", "198.51.100.2", (), "")
BUILDER_NETWORK = NetworkSpec("198.51.100.0/24", "198.51.100.1")
BUILDER_GROUP = GroupSpec((BUILDER,), "builder", 0, ())

# Files of the host that mmdebstrap copies. A node has its own or none.
HOST_TRACES = ("etc/apt/sources.list", "etc/apt/apt.conf.d/99mmdebstrap", "etc/hostname", "etc/resolv.conf")

# Removes the identity of a builder, which must not become the identity of all nodes.
STRIP = """
rm -rf /etc/ssh/ssh_host_* /root/.ssh/* /root/.ansible /etc/hostname /etc/stampworks/services/*/supervise
rm -rf /etc/stampworks/services/*/log/supervise /var/log/stampworks/*
rm -rf /var/cache/apt/archives/*.deb /tmp/* /var/tmp/*
"""


@dataclass(frozen=True)
class Builder:
    """A machine that has booted from the base system, and is ready to be made into an image."""

    name: str
    instance: str
    address: str
    host_key: str
    reach: tuple[str, ...]
    """Prefix of a command that runs a program of this host where the address can be reached."""
    identity_file: str
    """Private key with which root logs in."""
    packages: str
    """Source of the image's packages for the builder's apt."""


@dataclass(frozen=True)
class ImageRecipe:
    """Inputs of an image, and the folder of each of its parts."""

    spec: ImageSpec
    sources: tuple[str, ...]
    base_packages: tuple[str, ...]
    packages: tuple[str, ...]
    base: Path
    repository: Path
    node: Path
    programs: tuple[Path, ...]
    """Programs that are copied onto nodes because no package of the suite has them."""

    @property
    def image(self) -> NodeImage:
        """The image as nodes use it, with its layers from the top."""
        layers = (self.node / "layer", self.base / "tree")
        return NodeImage(
            self.node.name, tuple(map(str, layers)), str(self.repository / "repository"), bool(self.programs)
        )

    @property
    def whole(self) -> bool:
        """Whether all parts of the image are in the cache."""
        return self.base.exists() and self.repository.exists() and self.node.exists()


def image_of(spec: ImageSpec, content_digest: str) -> NodeImage:
    """Return the image that ensure_image would return, whether it exists or not."""
    return _recipe(spec, content_digest).image


def ensure_image(
    spec: ImageSpec, install: Callable[[Builder], None], content_digest: str, progress: Progress
) -> NodeImage:
    """Return the image, and make it if it does not exist.

    `install` configures the builder; its error fails the build. The digest stands for the effect of `install`: the same
    digest gives the same image.
    """
    recipe = _recipe(spec, content_digest)
    if recipe.whole:
        retention.touch(recipe.node)
        return recipe.image
    # check first: only namespaces could remove the results again
    run([*CONTAINED, "true"], WHERE, "cannot create the namespaces for it", timeout=20)

    def busy() -> None:
        progress("waiting for another command that makes an image")

    with files.locked(recipe.node.with_name(".lock"), WHERE, BUILD_TIMEOUT_S, busy):
        _keep(recipe.base, lambda draft: _make_base(recipe, draft, progress), "base system", progress)
        _keep(recipe.repository, lambda draft: _make_repository(recipe, draft, progress), "packages", progress)
        _keep(recipe.node, lambda draft: _make_node(recipe, draft, install, progress), "roles installed", progress)
        retention.touch(recipe.node)
        retention.sweep(recipe.node.parent, progress)
    return recipe.image


def _recipe(spec: ImageSpec, content_digest: str) -> ImageRecipe:
    sources = apt.sources_of(spec.suite)
    base_packages = tuple(sorted({*spec.base_packages, *NEEDED}))
    packages = tuple(sorted({*BREAKING, *spec.packages}))
    tree = [(str(path.relative_to(TREE)), path.read_text()) for path in sorted(TREE.rglob("*")) if path.is_file()]
    host = [platform.machine(), bool(MAPPED_ROOT)]  # files of a user's image belong to other numbers than root's
    base = _digest([FORMAT, host, spec.suite, sources, base_packages, tree])
    repository = _digest([base, packages])
    built = tuple(Path(programs.program(name)) for name in ON_NODES) if spec.runs_containers else ()
    node = _digest([repository, content_digest, STRIP, *map(str, built)])
    images = files.make_directory(paths.cache_dir() / "images", 0o700)
    return ImageRecipe(
        spec,
        sources,
        base_packages,
        packages,
        base=images / f"base-{base}",
        repository=images / f"packages-{repository}",
        node=images / f"node-{node}",
        programs=built,
    )


def _digest(parts: list[object]) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def _keep(path: Path, make: Callable[[Path], None], what: str, progress: Progress) -> None:
    """Make a folder of the cache atomically: it exists complete or not at all."""
    if path.exists():
        return
    draft, begun = path.with_name(f".{path.name}"), time.monotonic()
    files.remove_tree(draft, WHERE)  # left by an attempt that was killed
    files.make_directory(draft, 0o700)
    try:
        make(draft)
        draft.rename(path)
    finally:
        files.remove_tree(draft, WHERE)
    progress(f"{what}: done after {time.monotonic() - begun:.0f} s")


def _make_base(recipe: ImageRecipe, draft: Path, progress: Progress) -> None:
    tree = draft / "tree"
    apt.make_tree(tree, recipe.spec.suite, recipe.sources, recipe.base_packages, progress)
    for trace in (*HOST_TRACES, *(str(path.relative_to(tree)) for path in tree.glob("etc/ssh/ssh_host_*"))):
        (tree / trace).unlink(missing_ok=True)
    for source in sorted(TREE.rglob("*")):
        target = tree / source.relative_to(TREE)
        if source.is_file():
            files.make_directory(target.parent)
            shutil.copyfile(source, target)
            target.chmod(0o644 if source.suffix == ".conf" else 0o755)  # the rest are programs
    files.make_directory(tree / "exports")


def _make_repository(recipe: ImageRecipe, draft: Path, progress: Progress) -> None:
    apt.download(draft / "repository", recipe.base / "tree", recipe.sources, recipe.packages, progress)


def _make_node(recipe: ImageRecipe, draft: Path, install: Callable[[Builder], None], progress: Progress) -> None:
    room = Room(draft / "room", WHERE)
    bare = NodeImage("", (str(recipe.base / "tree"),), recipe.image.packages)
    with room.leashed():
        key = disks.make_key(draft / "key", WHERE)
        rooms.furnish(room, BUILDER_NETWORK, (), key, (draft / "key.pub").read_text())
        nodes.keep_running(room, BUILDER_GROUP, (), bare, lambda _: progress("builder booted"))
        install(_builder(room))
        stripped = nodes.run_inside(room, BUILDER.name, ["sh", "-c", STRIP], timeout=60)
        if stripped.returncode != 0:
            raise RoomError(WHERE, "cannot clean the builder", stripped.stderr)
    (room.nodes / BUILDER.name / "upper").rename(draft / "layer")
    for program in recipe.programs:
        shutil.copy(program, files.make_directory(draft / "layer/usr/local/bin", 0o755))
    if recipe.image.containers:
        retention.mark(draft)
    files.remove_tree(room.folder, WHERE)
    retention.describe(draft, [recipe.base.name, recipe.repository.name])


def _builder(room: Room) -> Builder:
    disk = disks.disk_of(room, BUILDER.name)
    instance = disk.process.instance if disk.process else ""
    packages = "Types: deb\nURIs: file:/exports/.packages\nSuites: ./\nTrusted: yes"
    key, reach = str(room.identity_file), room.reach
    return Builder(BUILDER.name, instance, BUILDER.address, disk.host_key, reach, key, packages)
