"""Message for users whose machine forbids namespaces: the setting, and the command that changes it."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from stampworks.machine_room import privileges

UID, GID = ["alice:100000:65536"], ["alice:100000:65536"]
RANGES = {"/etc/subuid": UID, "/etc/subgid": GID}
STATUS = "/proc/self/status"
CLONE = "/proc/sys/kernel/unprivileged_userns_clone"
APPARMOR = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"
REFUSED = "unshare: unshare failed: Operation not permitted"
FALLBACK = "see whether this works: unshare --user --map-root-user --map-auto --mount --net --pid --fork true"

ROOT = Path(__file__).parents[2]
STACK = ROOT / "stacks/Pulumi.local.yaml"

START = """
from stampworks.machine_room import RoomError, outer
try:
    outer.start("cluster demo", "demo", lambda process: None, leashed=True).close()
except RoomError as error:
    print(error)
"""


@pytest.fixture
def alice(monkeypatch: pytest.MonkeyPatch) -> None:
    """An ordinary user on a machine with all programs."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    monkeypatch.setattr(pwd, "getpwuid", lambda _: SimpleNamespace(pw_name="alice"))
    monkeypatch.setattr(shutil, "which", lambda program, path: f"/usr/bin/{program}")
    monkeypatch.setattr(privileges, "_may_map", lambda _: True)


def remedy(monkeypatch: pytest.MonkeyPatch, lines: dict[str, list[str]], why: str = REFUSED) -> str:
    monkeypatch.setattr(privileges, "_lines", lambda path: lines.get(path, []))
    return privileges.remedy(why, "/usr/bin")


@pytest.mark.parametrize(
    ("lines", "hint"),
    [
        pytest.param(
            {"/etc/subuid": ["bob:100000:65536"], "/etc/subgid": GID},
            "alice has no subordinate ids in /etc/subuid; as root: usermod --add-subuids 165536-231071 alice",
            id="no subordinate uids",
        ),
        pytest.param(
            {"/etc/subuid": UID},
            "alice has no subordinate ids in /etc/subgid; as root: usermod --add-subgids 100000-165535 alice",
            id="no subordinate gids",
        ),
        pytest.param(
            {"/etc/subuid": ["1000:200000:1000"], "/etc/subgid": GID},
            "alice has 1000 subordinate ids in /etc/subuid, and a node needs 65536; "
            "as root: usermod --del-subuids 200000-200999 --add-subuids 201000-266535 alice",
            id="too few",
        ),
        pytest.param(
            {**RANGES, CLONE: ["0"]},
            "this host forbids user namespaces: kernel.unprivileged_userns_clone is 0; "
            "as root: sysctl kernel.unprivileged_userns_clone=1",
            id="forbidden by the kernel",
        ),
        pytest.param(
            {**RANGES, CLONE: ["1"], APPARMOR: ["1"]},
            "this host forbids user namespaces: kernel.apparmor_restrict_unprivileged_userns is 1; "
            "as root: sysctl kernel.apparmor_restrict_unprivileged_userns=0",
            id="forbidden by AppArmor",
        ),
        pytest.param(
            {**RANGES, "/proc/sys/user/max_user_namespaces": ["0"]},
            "user.max_user_namespaces is 0 here; as root: sysctl user.max_user_namespaces=10000",
            id="none allowed",
        ),
        pytest.param(
            {**RANGES, STATUS: ["NoNewPrivs:\t1"]},
            "no_new_privs is set for this process, and newuidmap needs its privilege: start it without that setting",
            id="no new privileges",
        ),
        pytest.param({**RANGES, CLONE: ["1"], APPARMOR: ["0"]}, FALLBACK, id="unknown"),
    ],
)
@pytest.mark.usefixtures("alice")
def test_a_user_reads_which_setting_it_is(
    monkeypatch: pytest.MonkeyPatch, lines: dict[str, list[str]], hint: str
) -> None:
    """The error names the setting, and root's command to change it."""
    assert remedy(monkeypatch, lines) == hint


@pytest.mark.parametrize("missing", ["newuidmap", "newgidmap"])
@pytest.mark.usefixtures("alice")
def test_a_missing_program_is_named(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    monkeypatch.setattr(shutil, "which", lambda program, path: None if program == missing else f"{path}/{program}")
    assert remedy(monkeypatch, RANGES) == f"an ordinary user needs {missing}; as root: apt-get install uidmap"


@pytest.mark.usefixtures("alice")
def test_a_program_without_its_privilege_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unpacked images may lose set-user-id bits."""
    monkeypatch.setattr(privileges, "_may_map", lambda _: False)
    assert (
        remedy(monkeypatch, RANGES)
        == "/usr/bin/newuidmap has lost its privilege; as root: chmod u+s /usr/bin/newuidmap"
    )


@pytest.mark.usefixtures("alice")
def test_a_user_without_a_name_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container can be run as any number."""

    def nobody(_: int) -> None:
        raise KeyError

    monkeypatch.setattr(pwd, "getpwuid", nobody)
    assert remedy(monkeypatch, RANGES) == (
        "the user id 1000 has no name on this machine, and subordinate ids go by name; as root: useradd"
    )


def test_a_limit_that_is_nearly_used_up_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel calls it a lack of space."""
    lines = {"/proc/sys/user/max_net_namespaces": ["50"]}
    full = remedy(monkeypatch, lines, "unshare failed: No space left on device")
    assert full == "user.max_net_namespaces is 50 here; as root: sysctl user.max_net_namespaces=10000"


def test_a_root_without_capabilities_reads_which(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container without privileges lacks capabilities."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert remedy(monkeypatch, {STATUS: ["CapEff:\t00000000a80425fb"]}) == (
        "this root has no CAP_SYS_ADMIN and no CAP_NET_ADMIN; a container needs to be privileged"
    )
    assert remedy(monkeypatch, {STATUS: ["CapEff:\t000001ffffffffff"]}) == FALLBACK


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("prefix", "hint"),
    [
        pytest.param(
            ["setpriv", "--bounding-set", "-sys_admin", "--inh-caps", "-sys_admin"],
            "this root has no CAP_SYS_ADMIN; a container needs to be privileged",
            id="no capability",
        ),
        pytest.param(
            ["sh", "-c", 'echo 0 >/proc/sys/user/max_net_namespaces && exec "$@"', "sh"],
            "user.max_net_namespaces is 0 here; as root: sysctl user.max_net_namespaces=10000",
            id="no namespaces",
        ),
    ],
)
def test_a_kernel_that_refuses_says_so_for_real(tmp_path: Path, prefix: list[str], hint: str) -> None:
    """The test uses a user namespace in which it can forbid these calls."""
    own = ["unshare", "--user", "--map-root-user"]
    done = subprocess.run(
        [*own, *prefix, sys.executable, "-c", START], capture_output=True, text=True, timeout=60, cwd=tmp_path
    )
    assert done.stdout.startswith("cluster demo: cannot start the machine room: unshare: unshare failed: "), done.stderr
    assert done.stdout.splitlines()[1:] == [f"  hint: {hint}"]
    plan = [
        sys.executable,
        "-m",
        "stampworks.cli.main",
        "plan",
        str(Path(__file__).parents[2] / "stacks/Pulumi.local.yaml"),
    ]
    planned = subprocess.run([*own, *prefix, *plan], capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert planned.returncode == 0, planned.stderr


@pytest.mark.cluster
@pytest.mark.parametrize("verb", ["image", "plan"])
def test_a_user_without_subordinate_ids_reads_so_for_real(tmp_path: Path, verb: str) -> None:
    """The first command of `make demo` reports it and leaves nothing; `plan` works without them."""
    environment = {
        **os.environ,
        "STAMPWORKS_CACHE": str(tmp_path / "cache"),
        "STAMPWORKS_STATE": str(tmp_path / "state"),
    }
    nobody = ["unshare", "--user", "--map-user=65534", "--map-group=65534"]  # without subordinate ids
    command = [*nobody, sys.executable, "-m", "stampworks.cli.main", verb, str(STACK)]
    if verb == "image":
        command[-1:] = ["--stack", "local"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=ROOT, env=environment)
    if verb == "plan":
        assert done.returncode == 0, done.stderr
        return
    assert done.returncode == 4, done.stderr
    assert re.search(
        r"^node image: cannot create the namespaces for it: .*\n"
        r"  hint: nobody has no subordinate ids in /etc/subuid; "
        r"as root: usermod --add-subuids \d+-\d+ nobody$",
        done.stderr,
        re.DOTALL | re.MULTILINE,
    ), done.stderr
    assert list((tmp_path / "cache/images").iterdir()) == []
