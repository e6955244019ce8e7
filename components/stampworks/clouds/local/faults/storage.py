"""Faults of disks, of shared directories and of shared memory."""

from __future__ import annotations

from stampworks.clouds.faults import Injected
from stampworks.clouds.local.faults.settings import brought
from stampworks.clouds.local.faults.site import Means, Site, each_of, number, resident


def _mounted(site: Site, one: Injected, source: str, path: str) -> bool:
    return f"\n{source} {path} " in "\n" + site.on_node(one.where, "cat", "/proc/mounts")


# -- a full disk: a small one mounted over /tmp, where jobs write

_DISK, _DISK_MIB = "full-disk", 8
_FILL = f"""
mount -t tmpfs -o size={_DISK_MIB}m,mode=1777,nosuid,nodev {_DISK} /tmp
head -c "$1" /dev/zero >/tmp/.full
"""


def _fill(site: Site, one: Injected) -> None:
    if not _mounted(site, one, _DISK, "/tmp"):  # noqa: S108 (a node's)
        site.shell(one.where, _FILL, str(round((_DISK_MIB - number(one)) * 2**20)))


def _give_back(site: Site, one: Injected) -> None:
    if _mounted(site, one, _DISK, "/tmp"):  # noqa: S108
        site.on_node(one.where, "umount", "--lazy", "/tmp")  # noqa: S108 (jobs may still be in there)


FULL_DISK = Means(inject=_fill, clear=_give_back, there=lambda site, one: _mounted(site, one, _DISK, "/tmp"))  # noqa: S108


# -- the first shared directory: not mounted, or slow


def _shared(site: Site) -> str:
    return site.plan.storage[0].mount


def _is_mount(site: Site, one: Injected) -> bool:
    script = '! mountpoint --quiet "$1" || echo yes'
    return site.shell(one.where, script, _shared(site)) != ""


def _unmount(site: Site, one: Injected) -> None:
    if _is_mount(site, one):
        site.on_node(one.where, "umount", "--lazy", _shared(site))


def _mount(site: Site, one: Injected) -> None:
    if not _is_mount(site, one):
        site.on_node(one.where, "mount", _shared(site))


NOT_SHARED = Means(inject=_unmount, clear=_mount, there=lambda site, one: not _is_mount(site, one))

_TOOLS = brought("slow", "bindfs", "libfuse2t64")
_SLOW = """
tools=$(dirname "$(find /usr/local/lib/stampworks/brought/slow -name bindfs -type f)")/..
export LD_LIBRARY_PATH=$(dirname "$(find "$tools" -name 'libfuse.so.2')")
"$tools/bin/bindfs" --write-rate="$3" --read-rate="$3" "$1" "$2"
"""


def _is_slow(site: Site, one: Injected) -> bool:
    mounts = site.on_node(one.where, "cat", "/proc/mounts").splitlines()
    return any(line.split()[1:3] == [_shared(site), "fuse"] for line in mounts)


def _slow_down(site: Site, one: Injected) -> None:
    if not _is_slow(site, one):
        source = f"/exports/{site.plan.storage[0].name}"
        site.shell(one.where, _SLOW, source, _shared(site), str(round(number(one) * 1e6)))


def _speed_up(site: Site, one: Injected) -> None:
    if _is_slow(site, one):
        site.on_node(one.where, "umount", "--lazy", _shared(site))


SLOW_SHARED = each_of(_TOOLS, Means(inject=_slow_down, clear=_speed_up, there=_is_slow))


# -- files that lose their end after they were written, as with a cache that confirms writes too early

_TEAR = """
import ctypes, struct
lost, place = int(sys.argv[1]), sys.argv[2]
LEAST = 1 << 20  # a checkpoint is large; what is small stays whole
CLOSED, CREATED = 0x8, 0x100
libc = ctypes.CDLL(None)
queue = libc.inotify_init()
folders, ours = {}, {}

def watch(folder):
    folders[libc.inotify_add_watch(queue, folder.encode(), CLOSED | CREATED)] = folder
    for name in os.listdir(folder):  # which came before the watch
        created(os.path.join(folder, name))

def created(path):
    try:
        if os.path.isdir(path):
            watch(path)
        elif path not in ours and is_written_here(os.stat(path)):
            ours[path] = os.open(path, os.O_WRONLY)
    except OSError:
        pass  # it is gone already

def is_written_here(file):
    # the directory is everybody's, the processes are this node's: the last one that was started comes first
    for pid in sorted(filter(str.isdigit, os.listdir("/proc")), key=int, reverse=True):
        try:
            for name in os.listdir(f"/proc/{pid}/fd") if int(pid) != os.getpid() else []:
                if os.path.samestat(os.stat(f"/proc/{pid}/fd/{name}"), file):
                    return True
        except OSError:
            pass
    return False

def closed(path):
    file = ours.pop(path, None)
    if file is not None:
        size = os.fstat(file).st_size
        if size >= LEAST:
            os.ftruncate(file, size - lost)
        os.close(file)

watch(place)
go_into_background()
while True:
    said = os.read(queue, 1 << 16)
    while said:
        number, what, _, length = struct.unpack_from("iIII", said)
        name, said = said[16:16 + length].rstrip(bytes(1)).decode(), said[16 + length:]
        if number in folders:
            path = os.path.join(folders[number], name)
            created(path) if what & CREATED else closed(path)
"""

TORN = resident("torn-checkpoint", _TEAR, lambda site, one: (str(round(number(one))), _shared(site)))


# -- shared memory


def _resize(site: Site, one: Injected, size: str) -> None:
    site.on_node(one.where, "mount", "-o", f"remount,size={size}", "/dev/shm")  # noqa: S108 (a node's)


def _is_small(site: Site, one: Injected) -> bool:
    size = site.on_node(one.where, "df", "--block-size=1M", "--output=size", "/dev/shm").split()[-1]  # noqa: S108
    return int(size) == round(number(one))


SMALL_SHARED_MEMORY = Means(
    inject=lambda site, one: _resize(site, one, f"{round(number(one))}m"),
    clear=lambda site, one: _resize(site, one, "50%"),  # the kernel's default
    there=_is_small,
)
