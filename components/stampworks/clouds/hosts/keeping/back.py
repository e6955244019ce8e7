"""Give a host back as it was found. Every step can be interrupted, and run again."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

from stampworks.clouds.hosts.keeping import accounts, found, mounts, packages, processes, services
from stampworks.clouds.hosts.keeping.found import Found, Ours
from stampworks.clouds.hosts.keeping.places import (
    AUTHORIZED,
    BEFORE,
    COPIED,
    COPY,
    DRAFT,
    GONE,
    HANDS_OFF,
    KEY,
    LISTED,
    MARK,
    OF_A_CLUSTER,
    OF_PACKAGES,
    STATE,
    VOLATILE,
    is_below,
    matches,
    top_most,
    was_there,
)
from stampworks.clouds.hosts.keeping.programs import run
from stampworks.clouds.hosts.keeping.tree import Tree, same

NOTED = ("users.json", "groups.json")
GRUB = "/etc/default/grub.d"
FOLDER_OF_MARK = MARK.rpartition("/")[0]


class GiveBack:
    """The steps of giving a host back, and what they leave there on purpose."""

    def __init__(self, tree: Tree, before: Found, keep_packages: bool) -> None:
        self.tree, self.before, self.keep_packages = tree, before, keep_packages
        self.kept: dict[str, str] = {}
        self.failed: list[str] = []
        self.ours = found.read_ours(tree)
        self.packages_left: set[str] = set()

    def run(self) -> dict[str, Any]:
        """Take all steps, and return what was kept, what failed, and what still differs."""
        self.ours.add(self.look())
        running = processes.processes()
        left = processes.left_over(running, self.ours.uids, self.programs, os.getpid())
        self.ours.add(Ours(processes=[running[pid].identity for pid in left]))
        found.write_ours(self.tree, self.ours)
        self.failed += services.end(self.ours.services)
        self.failed += processes.end(self.ours.uids, self.programs, self.ours.processes)
        if still := mounts.unmount(self.ours.mounts):
            self.failed += still
            return self.answer()
        self.tree.points -= {*self.ours.mounts}
        _remove_volatile()  # a file with the number of an ended process makes a package refuse its removal
        self.remove_packages()
        self.restore_fstab()
        self.remove_written()
        self.remove_left_over()
        self.restore_copied()
        self.remove_homes()
        accounts.give_back(
            self.tree,
            self.ours.users,
            self.ours.groups,
            self.ours.noted,
            {"users": self.before.users, "groups": self.before.groups},
        )
        self.settle()
        self.name_the_rest()
        return self.answer()

    @property
    def programs(self) -> set[str]:
        """Return the programs that a cluster brought."""
        return {*self.ours.files, *self.ours.package_files}

    def answer(self) -> dict[str, Any]:
        """Return the result as it is printed."""
        return {
            "kept": [{"what": what, "why": why} for what, why in sorted(self.kept.items())],
            "failed": self.failed,
            "differences": found.differences(self.tree, self.before, self.ours),
        }

    # -- see

    def look(self) -> Ours:
        """Return what is of the cluster, as far as it can be seen now."""
        tree, before = self.tree, self.before
        now = packages.installed(packages.packages())
        new = sorted(now.keys() - packages.installed(before.packages).keys())
        users, groups = (accounts.accounts(tree.text(path)) for path in ("/etc/passwd", "/etc/group"))
        noted = set().union(*(accounts.recorded(tree, record) for record in NOTED))
        our_users = accounts.of_cluster(tree, NOTED[0], before.users, users)
        people = [name for name in our_users if name in noted]
        our_groups = {*accounts.of_cluster(tree, NOTED[1], before.groups, groups)}
        our_groups |= {name for name in people if name in groups and name not in before.groups}
        taken = {0, *(int(row[accounts.ID]) for row in before.users.values())}
        known = services.services()
        points = mounts.split_fstab(tree.text("/etc/fstab"))[1]
        return Ours(
            packages=new,
            package_files=sorted(packages.files_of(new)),
            files=sorted(found.written_by_roles(tree)),
            users=our_users,
            groups=sorted(our_groups),
            noted=sorted(noted),
            uids=sorted({int(users[name][accounts.ID]) for name in our_users} - taken),
            homes=[users[name][accounts.HOME] for name in people],
            mounts=mounts.of_cluster(points, before.mounts, mounts.mounts()),
            services=sorted(
                {*services.new_services(before.services, known), *services.enabled_since(before.services, known)}
            ),
        )

    def is_new(self, path: str) -> bool:
        """Whether a path was not there, as far as the list tells."""
        return not was_there(path, self.before.files, self.before.mounts)

    # -- take away

    def remove_packages(self) -> None:
        """Remove packages that were not there, and name those that stay."""
        new = packages.installed(packages.packages()).keys() - packages.installed(self.before.packages).keys()
        if self.keep_packages:
            left, failed = dict.fromkeys(new, "packages are kept, as was asked for"), dict[str, str]()
        else:
            modules = mounts.modules_in_use(self.before.modules)
            left, failed = packages.give_back(self.before.packages, packages.kept(new, modules))
        self.packages_left = {*left, *failed}
        for why in dict.fromkeys(failed.values()):
            named = ", ".join(name for name in failed if failed[name] == why)
            self.failed.append(f"packages {named} cannot be removed: {why}")
        missing = packages.bring_back(self.before.packages)
        self.kept.update({f"package {name}": why for name, why in {**left, **missing}.items()})
        for name in packages.changed(self.before.packages, packages.packages()):
            self.kept[f"package {name}"] = "it has another version: versions are not taken back"

    def restore_fstab(self) -> None:
        """Remove the lines of roles from fstab, and leave every other line alone."""
        text = self.tree.text("/etc/fstab")
        rest = mounts.split_fstab(text)[0]
        if rest != text and rest:
            self.tree.write("/etc/fstab", rest)
        elif rest != text and "/etc/fstab" in self.before.files:
            self.tree.copy(f"{BEFORE}/{COPY}/etc/fstab", "/etc/fstab")
        elif rest != text:
            self.remove("/etc/fstab")

    def remove_written(self) -> None:
        """Remove or restore what roles wrote, and remove the mount points that they made."""
        folders = [*self.ours.files, *self.ours.mounts]
        for path in sorted(folders, key=len, reverse=True):
            if path in self.before.files and path.startswith("/etc/"):
                self.restore(path)
            elif path in self.before.files or is_below(path, (STATE, MARK)):
                continue
            elif path in self.ours.mounts:
                self.remove_empty_above(path)
            elif self.is_new(path):
                self.remove(path)
                self.remove_empty_above(path)
            elif self.tree.stat(path):
                self.kept[path] = "a role wrote it, and no list tells whether it was there before"

    def remove_left_over(self) -> None:
        """Remove what packages and services left, and the state of roles."""
        owned = {*self.ours.package_files} - packages.files_of(self.packages_left)
        system = [uid for uid in self.ours.uids if accounts.is_of_service(uid)]
        for path in found.new_files(self.before, entries := self.tree.entries()):
            if path.startswith("/etc/") or (self.packages_left and matches(path, OF_PACKAGES)):
                continue
            known = matches(path, OF_A_CLUSTER) or path in owned or _named(path)
            if known or entries[path][2] in system:
                self.remove(path)
                self.remove_empty_above(path)
        for name in self.tree.names(STATE):
            if f"{STATE}/{name}" not in (BEFORE, DRAFT, *self.before.mounts):
                self.remove(f"{STATE}/{name}")

    def remove_empty_above(self, path: str) -> None:
        """Remove a folder and those above it, as long as they are new and empty."""
        while path not in ("", "/") and self.is_new(path):
            if self.tree.stat(path) and not self.tree.remove_empty(path):
                return
            path = path.rpartition("/")[0]

    def restore_copied(self) -> None:
        """Make the copied folders what they were: remove what is new, and write what has gone or changed."""
        now = self.tree.entries({place: LISTED[place] for place in COPIED})
        stay = [path for path in packages.files_of(self.packages_left) if is_below(path, COPIED)]
        new = [path for path in found.new_files(self.before, now) if not is_below(MARK, [path])]
        for path in top_most(new):
            if not self.spares(path, stay):
                self.remove(path)
        for path, entry in self.before.files.items():
            if not is_below(path, COPIED) or self.spares(path, ()) or matches(path, HANDS_OFF):
                continue
            if path in now and same(path, entry, now[path]):
                continue
            if path in now and now[path][0] != entry[0]:
                self.remove(path)
            self.restore(path)

    def spares(self, path: str, stay: Iterable[str]) -> bool:
        """Whether a path of a copied folder is left as it is."""
        shared = bool(self.packages_left) and matches(path, OF_PACKAGES)
        return shared or matches(path, HANDS_OFF) or any(is_below(each, [path]) for each in stay)

    def remove_homes(self) -> None:
        """Remove home directories that roles made on the root's own disk."""
        for home in self.ours.homes:
            status = self.tree.stat(home)
            if status and self.is_new(home) and status.st_uid in self.ours.uids:
                self.remove(home)

    def remove(self, path: str) -> None:
        """Remove a path, and say what of it stays."""
        try:
            if not self.tree.remove(path):
                self.kept[path] = "it is protected, or on another file system, or something in it is"
        except OSError as error:
            self.failed.append(f"{path} stays: {error.strerror}")

    def restore(self, path: str) -> None:
        """Write a file, link or folder from its copy; others have none."""
        if path in self.tree.points or not self.tree.stat(f"{BEFORE}/{COPY}{path}"):
            return
        try:
            self.tree.copy(f"{BEFORE}/{COPY}{path}", path)
        except OSError as error:
            self.failed.append(f"{path} cannot be restored: {error.strerror}")

    # -- settle

    def settle(self) -> None:
        """Have the running system take up what was restored."""
        run(["ldconfig"])
        if any(is_below(path, [GRUB]) for path in self.ours.files):
            run(["update-grub"], timeout_s=120)
        services.start_again(self.before.services)
        if pid := _number(Path("/run/sshd.pid")):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGHUP)  # sshd reads its settings again; open connections stay
        if services.SYSTEMD.is_dir():
            run(["systemctl", "try-restart", "systemd-logind"])
        for name, why in mounts.restore_sysctls(self.before.sysctls).items():
            self.kept[f"kernel setting {name}"] = why
        if socket.gethostname() != self.before.hostname and "/etc/hostname" in self.ours.files:
            socket.sethostname(self.before.hostname)

    def name_the_rest(self) -> None:
        """Name disks that were formatted, and files that nobody knows to be of the cluster."""
        for disk, (kind, identity) in mounts.disks().items():
            if self.before.disks.get(disk, ["", ""])[1] != identity:
                self.kept[f"disk {disk}"] = f"formatted since ({kind}): what is on it stays"
        now = self.tree.entries()
        for path in top_most(found.new_files(self.before, now)):
            spared = matches(path, HANDS_OFF) or is_below(MARK, [path]) or is_below(path, self.tree.protected)
            if not spared and not is_below(path, self.kept):
                self.kept[path] = "new since, and not known to be of the cluster"


def give_back(protected: Sequence[str], keep_packages: bool) -> dict[str, Any]:
    """Give this host back. What failed is in the result, and then the list of what was there stays."""
    resolved = [each for path in protected for each in (path.rstrip("/") or "/", os.path.realpath(path))]
    tree = Tree("/", mounts.mounts(), resolved)
    before = found.read(tree)
    result: dict[str, Any] = {"kept": [], "failed": [], "differences": {}}
    if before is not None:
        result = GiveBack(tree, before, keep_packages).run()
        result["kept"] += [{"what": path, "why": "it is protected"} for path in protected if tree.stat(path)]
        if result["failed"]:
            return result
        tree = Tree("/", mounts.mounts())
        tree.rename(BEFORE, GONE)
    for path in (DRAFT, GONE):
        tree.remove(path)
    forget_key(tree, {} if before is None else before.files)
    for path in (KEY, MARK):
        tree.remove(path)
    tree.remove_empty(STATE)
    if before is None or FOLDER_OF_MARK not in before.files:
        tree.remove_empty(FOLDER_OF_MARK)
    return result


def forget_key(tree: Tree, files: Collection[str]) -> None:
    """Remove the key of the cluster from those that root accepts, and its file if only the cluster needed it."""
    ours = {*tree.text(KEY).splitlines()} - {""}
    lines = tree.text(AUTHORIZED).splitlines(keepends=True)
    rest = [line for line in lines if line.rstrip("\n") not in ours]
    if rest != lines:
        tree.write(AUTHORIZED, "".join(rest))
    if lines and not rest and files and AUTHORIZED not in files:
        tree.remove(AUTHORIZED)
        folder = AUTHORIZED.rpartition("/")[0]
        if folder not in files:
            tree.remove_empty(folder)


def _named(path: str) -> bool:
    """Whether a file or folder has the project's name."""
    return path.rpartition("/")[2].lstrip(".").startswith("stampworks")


def _remove_volatile() -> None:
    """Remove what services left in /run, a file system of its own."""
    points = {point[len("/run") :] for point in mounts.mounts() if point.startswith("/run/")}
    tree = Tree("/run", points)
    for name in tree.names("/"):
        if matches(f"/{name}", [f"/{pattern}" for pattern in VOLATILE]):
            with contextlib.suppress(OSError):
                tree.remove(f"/{name}")


def _number(path: Path) -> int:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return 0
