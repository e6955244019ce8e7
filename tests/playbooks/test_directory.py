"""People of a directory on real nodes: SSSD asks a real slapd, over TLS."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from stampworks.configuration import PlaybookFailed

from tests.playbooks import conftest, slapd
from tests.playbooks.conftest import Cluster, booted, plan_of
from tests.playbooks.slapd import Person, group

pytestmark = [pytest.mark.cluster, pytest.mark.long]

GATEWAY = "10.98.0.1"
SERVICE = "/etc/stampworks/services/directory"
FORGET = f"sv -w 20 force-stop {SERVICE}; rm -f /var/lib/sss/db/* /var/lib/sss/mc/*; sv up {SERVICE}"
"""Let SSSD query the server at once, not when its cache expires."""
EVERYBODY = ("head", "gpu-001", "gpu-002")
SCHEDULER = {"accounting": True, "accounts": [{"name": "research"}, {"name": "product"}]}
USERS = [{"name": "alice", "uid": 2001, "accounts": ["product"]}]
DIRECTORY = {
    "kind": "ldap",
    "uri": f"ldap://{GATEWAY}:6389",
    "base": slapd.BASE,
    "bind": slapd.READER,
    "access_groups": ["ml"],
    "account": "research",
    "id_min": 20_000,
    "id_max": 29_999,
}


@dataclass
class Site:
    cluster: Cluster
    directory: slapd.Directory
    folder: Path

    def key(self, name: str) -> str:
        """Return the public key of a user; the folder has the private key."""
        file = self.folder / name
        if not file.exists():
            subprocess.run(
                ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", file], check=True, timeout=30
            )
        return file.with_suffix(".pub").read_text().strip()

    def serve(self, *people: Person, ml: tuple[str, ...] = ("dora",)) -> None:
        groups = [group("ml", 20_100, ml), group("sudo", 20_101, ["dora"]), group("other", 27, ["dora"])]
        self.directory.serve(people, groups)
        for node in EVERYBODY:
            self.cluster.shell(node, FORGET)

    def login(self, name: str, command: str) -> subprocess.CompletedProcess[str]:
        roster = self.cluster.roster
        head = next(member for member in roster.members if member.name == "head")
        options = ["-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"]
        own = ["-o", "IdentitiesOnly=yes", "-i", str(self.folder / name), f"{name}@{head.address}"]
        argv = [*roster.reach, "ssh", "-F", "none", *options, *own, command]
        return subprocess.run(argv, capture_output=True, text=True, timeout=120)

    def says(self, name: str, command: str) -> str:
        done = self.login(name, command)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()

    def refused(self, name: str) -> str:
        done = self.login(name, "true")
        assert done.returncode == 255, done.stdout + done.stderr
        return done.stderr


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("directory")
    server = tmp_path_factory.mktemp("slapd")
    slapd.certify(server, GATEWAY)
    fields = {"directory": {**DIRECTORY, "ca": (server / "ca.pem").read_text()}}
    plan = plan_of(f"t{uuid.uuid4().hex[:8]}", 2, scheduler=SCHEDULER, users=USERS, **fields)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(conftest.SECRETS, "directory_password", slapd.PASSWORD)
        with booted(plan, folder) as made:
            directory = slapd.Directory(server, GATEWAY, made.roster.reach)
            directory.prepare()
            here = Site(made, directory, folder)
            try:
                with pytest.raises(PlaybookFailed, match="See that the directory answers"):
                    made.play()  # the server does not run yet
                here.serve(Person("dora", 20_001, [here.key("dora")]), Person("eve", 20_002, [here.key("eve")]))
                made.play()
                yield here
            finally:
                directory.end()


def test_a_second_run_changes_nothing(site: Site) -> None:
    assert site.cluster.drift() == []
    assert site.cluster.play().changed == 0


def test_they_are_the_same_on_every_node(site: Site) -> None:
    """Users have the directory's ids and the cluster's home. A group called sudo, or with a system id, gives no
    rights."""
    for node in EVERYBODY:
        said = site.cluster.shell(node, "id dora; getent passwd dora; getent group sudo")
        assert said.splitlines() == [
            "uid=20001(dora) gid=20001(dora) groups=20001(dora),20100(ml)",
            "dora:*:20001:20001:dora:/shared/home/dora:/bin/bash",
            "sudo:x:27:",
        ]
        assert "x:2001:" in site.cluster.shell(node, "getent passwd alice")


def test_the_password_is_nobodys(site: Site) -> None:
    """It is readable neither on a node nor in the playbook's output."""
    assert site.cluster.shell("head", "stat -c '%a %U' /etc/sssd/sssd.conf") == "600 root"
    assert slapd.PASSWORD in site.cluster.shell("head", "cat /etc/sssd/sssd.conf")
    assert slapd.PASSWORD not in "".join(site.cluster.said)


def test_she_logs_in_with_the_key_of_the_directory(site: Site) -> None:
    """Her home is private, and her jobs run as her on other nodes, charged to the account."""
    assert site.says("dora", "pwd; stat -c '%a %U %G' .").splitlines() == ["/shared/home/dora", "700 dora dora"]
    said = site.says("dora", "srun --nodes=2 sh -c 'cd && echo $(id -un) $HOME $(stat -c %i .)' | sort -u")
    assert said == f"dora /shared/home/dora {site.says('dora', 'stat -c %i .')}"
    job = site.says("dora", "sbatch --parsable --wait --output=out --wrap hostname; cat out").splitlines()
    assert job[1].startswith("gpu-")
    asked = f"sacct -X -n -P -j {job[0]} -o user,account,state"
    assert site.says("dora", asked) == "dora|research|COMPLETED"


def test_login_needs_a_group_with_access(site: Site) -> None:
    """The directory has the user and her key, but no group with access."""
    assert site.cluster.shell("head", "id -u eve") == "20002"
    assert "Connection closed" in site.refused("eve")


def test_leaving_user_loses_access(site: Site) -> None:
    """First the key is removed, then the membership. The declaration stays, and the accounts show drift."""
    dora, eve = Person("dora", 20_001, [site.key("dora")]), Person("eve", 20_002, [site.key("eve")])
    site.serve(Person("dora", 20_001), eve)
    assert "Permission denied" in site.refused("dora")
    site.serve(dora, eve, ml=("eve",))
    assert "Connection closed" in site.refused("dora")
    drift = site.cluster.drift()
    assert any("accounting lacks: add user eve account=research" in each for each in drift), drift
    assert any("accounting lacks: delete user dora where account=research" in each for each in drift), drift
    site.cluster.play()
    assert site.says("eve", "srun sh -c 'id -un'") == "eve"
    site.serve(dora, eve)
    site.cluster.play()
    assert site.says("dora", "srun sh -c 'id -un'") == "dora"


def test_another_authority_has_no_say(site: Site) -> None:
    """A server with an untrusted certificate is not used, and SSSD continues when the right one is back."""
    right = site.directory.certificate
    try:
        slapd.certify(site.directory.folder, GATEWAY)
        site.serve(Person("mallory", 20_009, [site.key("dora")]), ml=("mallory",))
        assert "no such user" in site.cluster.shell("head", "id mallory 2>&1 || true")
    finally:
        site.directory.certificate = right
    site.serve(Person("dora", 20_001, [site.key("dora")]))
    site.cluster.until("head", "id -u dora 2>/dev/null || true", "20001")


def test_after_a_power_cut(site: Site) -> None:
    """SSSD starts automatically, and still knows all users."""
    site.cluster.power_cycle("head")
    site.cluster.until("head", "id -u dora 2>/dev/null || true", "20001")
    assert site.cluster.play().changed == 0
