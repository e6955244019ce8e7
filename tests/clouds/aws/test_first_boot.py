"""First boot of a node on AWS: the input of cloud-init, and the program that it runs."""

from __future__ import annotations

import email
import itertools
import os
import runpy
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from stampworks import catalog
from stampworks.clouds.aws import first_boot
from stampworks.clouds.aws.first_boot import cloud_config, node_config
from stampworks.configuration import playbooks_dir

from tests.clouds.served import Page, Served, served

PROGRAM = Path(first_boot.__file__).parent / "tree" / "install-agent"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA stampworks"
STAND_IN = """#!/bin/sh
{{ printf '%s' "${{0##*/}}"; printf ' <%s>' "$@"; echo; }} >>{log}
for last; do :; done
[ ! -f "$last" ] || {{ printf 'installed '; cat "$last"; echo; }} >>{log}
exit {code}
"""


def told(key: str, agent: str = "https://example.com/agent.deb") -> dict[str, object]:
    head, _, content = cloud_config(key, agent).partition("\n")
    assert head == "#cloud-config"
    found: dict[str, object] = yaml.safe_load(content)
    return found


def test_root_logs_in_with_the_key_of_the_cluster() -> None:
    """No other user and no password is accepted."""
    found = told(KEY)
    assert found["ssh_authorized_keys"] == [KEY]
    assert (found["disable_root"], found["users"], found["ssh_pwauth"]) == (False, [], False)


def test_host_keys_are_shown_on_the_console() -> None:
    """Host keys identify a node, so that every image must show them."""
    assert told(KEY)["ssh"] == {"emit_keys_to_console": True}


def test_names_stay_as_the_playbooks_have_written_them() -> None:
    """Some images write both files again at every boot."""
    found = told(KEY)
    assert (found["preserve_hostname"], found["manage_etc_hosts"]) == (True, False)


def test_an_image_that_brings_the_agent_is_told_nothing_of_it() -> None:
    """Canonical's has it as a snap."""
    without, ubuntu = told(KEY, ""), catalog.releases()["2026.11-ubuntu"]
    assert set(told(KEY)) - set(without) == {"write_files", "runcmd"}
    assert catalog.agent_package(catalog.machines()["p5"], ubuntu.suite, "us-east-1") == ""


@pytest.mark.parametrize("text", ['"]}\nruncmd: [reboot]', "'; reboot #", "{{ ds }}", "a: b # c", "\u2028é"])
def test_no_value_becomes_anything_else(text: str) -> None:
    """A key or an address is passed as data, with any content."""
    found = told(text, text)
    assert found["ssh_authorized_keys"] == [text]
    assert [command[1] for command in found["runcmd"]] == [text]  # type: ignore[attr-defined]
    assert set(found) == set(told(KEY))


def test_it_fits() -> None:
    """User data is limited to 16 KB."""
    assert len(cloud_config(KEY, "https://example.com/" + 200 * "x")) < 8192


def node_data(**more: bool) -> str:
    """Return the input of a node of EKS: the longest name of a cluster, its server's address and a certificate."""
    name, server, certificate = 100 * "a", f"https://{32 * 'A'}.gr7.ap-southeast-2.eks.amazonaws.com", 500 * "QUJD"
    return node_config("172.20.0.0/16", {"flags": [1000 * "b"]}, name, server, certificate, **more)


def parts(**more: bool) -> dict[str, str]:
    """The same, by the kinds of its parts."""
    message: Any = email.message_from_string(node_data(**more))
    return {each.get_content_type(): each.get_payload() for each in message.get_payload()}


@pytest.mark.parametrize("said", list(itertools.product((False, True), repeat=3)))
def test_user_data_of_eks_fits(said: tuple[bool, bool, bool]) -> None:
    """EC2 allows 16 KB before encoding. Each setting appears only where it is needed."""
    more = dict(zip(("array", "rdma", "as_asked"), said, strict=True))
    assert len(node_data(**more)) < 8192
    found = parts(**more)
    spec = yaml.safe_load(found["application/node.eks.aws"])["spec"]
    assert ["instance" in spec, "containerd" in spec, "text/x-shellscript" in found] == [*said]


def test_pods_may_lock_all_memory_of_a_node() -> None:
    """Pods may also open as many files as possible: the list replaces the image's own. The number is the largest that
    survives nodeadm's conversion to a float and back to 64 bits."""
    spec = yaml.safe_load(parts(rdma=True)["application/node.eks.aws"])["spec"]
    files, memory = spec["containerd"]["baseRuntimeSpec"]["process"]["rlimits"]
    assert files == {"type": "RLIMIT_NOFILE", "soft": 65536, "hard": 1048576}
    assert memory["type"] == "RLIMIT_MEMLOCK"
    assert memory["soft"] == memory["hard"] == int(float(memory["hard"])) < 1 << 63
    assert memory["hard"] > 1024 * max(
        row.memory_mib << 20 for row in catalog.machines().values() if isinstance(row.memory_mib, int)
    )


@pytest.mark.parametrize(
    ("there", "code", "ran"),
    [
        (True, 0, ["nvidia-ctk"]),
        (True, 1, ["nvidia-ctk", "systemctl"]),
        (False, 0, []),
    ],
)
def test_pods_have_no_accelerators_that_they_did_not_ask_for(
    tmp_path: Path, there: bool, code: int, ran: list[str]
) -> None:
    """An environment variable of an image cannot request accelerators. A node on which this cannot be disabled does not
    join; without a toolkit there is nothing to disable."""
    log = tmp_path / "log"
    log.touch()
    for name in ("nvidia-ctk", "systemctl", *(["nvidia-container-runtime"] if there else [])):
        (tmp_path / name).write_text(STAND_IN.format(log=log, code=code if name == "nvidia-ctk" else 0))
        (tmp_path / name).chmod(0o755)
    done = subprocess.run(
        ["/bin/sh", "-c", parts(as_asked=True)["text/x-shellscript"]],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    said = {
        "nvidia-ctk": "nvidia-ctk <config> <--in-place> <--set> "
        "<accept-nvidia-visible-devices-envvar-when-unprivileged=false>",
        "systemctl": "systemctl <disable> <--now> <nodeadm-run>",
    }
    assert log.read_text().splitlines() == [said[name] for name in ran]
    assert done.returncode == 0
    assert ("stampworks: nvidia-ctk has failed" in done.stdout) == bool(code)


@pytest.fixture
def bucket() -> Iterator[Served]:
    """Run a server that has the package of the agent."""
    with served() as bucket:
        bucket.pages["/agent.deb"] = Page(b"the package")
        yield bucket


@pytest.fixture
def url(bucket: Served) -> str:
    return f"{bucket.url}/agent.deb"


def booted(
    folder: Path, url: str, programs: Sequence[str], code: int = 0, limit_s: float = 20
) -> tuple[int, list[str], str]:
    """Return exit status, executed commands and output of the program. The commands are stand-ins."""
    log = folder / "log"
    log.touch()
    (folder / "bin").mkdir()
    for name in programs:
        program = folder / "bin" / name
        program.write_text(STAND_IN.format(log=log, code=code if name == "apt-get" else 0))
        program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{folder}/bin:/usr/bin:/bin", "PAUSE_S": "0.05", "LIMIT_S": str(limit_s)}
    done = subprocess.run(
        ["/usr/bin/python3", PROGRAM, url], env=environment, capture_output=True, text=True, timeout=30, check=False
    )
    return done.returncode, log.read_text().splitlines(), done.stdout + done.stderr


def test_the_agent_is_installed_and_started(tmp_path: Path, url: str, bucket: Served) -> None:
    """A silent bucket and a busy apt are retried."""
    bucket.busy = 2
    apt = tmp_path / "bin" / "apt-get"

    def becomes_there() -> None:
        while not (tmp_path / "log").exists() or "installed the package" not in (tmp_path / "log").read_text():
            time.sleep(0.01)
        (apt.parent / "amazon-ssm-agent").symlink_to(apt)

    threading.Thread(target=becomes_there, daemon=True).start()
    code, ran, said = booted(tmp_path, url, ["apt-get", "systemctl"])
    assert code == 0, said
    assert said.count("HTTP Error 503") == 2
    assert ran[0].startswith("apt-get <install> <--yes> <--quiet> <-o> <DPkg::Lock::Timeout=300> </tmp/")
    assert ran[1] == "installed the package"
    assert ran[-1] == "systemctl <enable> <--now> <amazon-ssm-agent>"


def test_an_image_that_has_the_agent_keeps_it(tmp_path: Path) -> None:
    """The agent is not downloaded."""
    code, ran, _ = booted(tmp_path, "http://127.0.0.1:9/agent.deb", ["amazon-ssm-agent", "systemctl"])
    assert (code, ran) == (0, ["systemctl <enable> <--now> <amazon-ssm-agent>"])


def test_it_says_on_the_console_why_nobody_gets_in(tmp_path: Path, url: str) -> None:
    """The console is the only readable output of such a node."""
    code, ran, said = booted(tmp_path, url, ["apt-get", "systemctl"], code=100, limit_s=0.4)
    assert code == 1
    assert f"stampworks: {url}: Command '['apt-get', 'install'" in said
    assert "returned non-zero exit status 100" in said
    assert not [line for line in ran if line.startswith("systemctl")]


def test_the_package_is_in_the_region_of_the_cluster() -> None:
    """The bucket of the same region is reachable without egress."""
    assert catalog.agent_package(catalog.machines()["p5"], "trixie", "us-west-2") == (
        "https://s3.us-west-2.amazonaws.com/amazon-ssm-us-west-2/3.3.4624.0/debian_amd64/amazon-ssm-agent.deb"
    )
    arm = catalog.agent_package(catalog.machine_names()["p6e-gb200"], "trixie", "us-east-1")
    assert arm.endswith("/debian_arm64/amazon-ssm-agent.deb")


def test_a_node_that_starts_by_itself_joins() -> None:
    """Access is set up first, so that a failed join can be examined."""
    found: Any = yaml.safe_load(cloud_config(KEY, "https://a.deb", ("one", "gpu", "eu-west-1", "bucket")))
    assert [Path(command[0]).name for command in found["runcmd"]] == ["install-agent", "join"]
    assert found["runcmd"][1][1:] == ["one", "gpu", "eu-west-1", "bucket"]
    assert {each["permissions"] for each in found["write_files"]} == {"0755"}


def test_machine_that_cannot_join_terminates(tmp_path: Path) -> None:
    """The node first logs the reason on its console, then terminates, so that it costs nothing."""
    log = tmp_path / "log"
    for name in ("ansible-playbook", "poweroff"):
        (tmp_path / name).write_text(STAND_IN.format(log=log, code=0))
        (tmp_path / name).chmod(0o755)
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        metadata = f"http://127.0.0.1:{nobody.getsockname()[1]}"
    environment = {"PATH": str(tmp_path), "LIMIT_S": "0", "STAMPWORKS_METADATA": metadata}
    join = [sys.executable, "-sE", str(PROGRAM.with_name("join")), "one", "gpu", "eu-west-1", "bucket"]
    done = subprocess.run(join, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "stampworks: <urlopen error [Errno 111] Connection refused>" in done.stdout
    assert "stampworks: this machine has not become a node, and goes" in done.stdout
    assert log.read_text().split() == ["poweroff", "<>"]


def test_machine_that_hangs_terminates(tmp_path: Path) -> None:
    """Otherwise Slurm would end it later, and start another machine that hangs at once."""
    log, configure = tmp_path / "log", tmp_path / "configure"
    for path, text in (
        (tmp_path / "poweroff", STAND_IN.format(log=log, code=0)),
        (configure, "import time\ntime.sleep(300)\n"),
    ):
        path.write_text(text)
        path.chmod(0o755)
    # all services that need AWS are simulated
    found = f"""
FOLDER = Path({str(tmp_path / "folder")!r})
packages = str
fetch = lambda *_: (FOLDER / "configure").symlink_to({str(configure)!r})
who = lambda: {{"name": "gpu-003"}}
"""
    program = tmp_path / "join"
    program.write_text(PROGRAM.with_name("join").read_text().replace("\n\nif __name__", f"\n{found}\nif __name__"))
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "LIMIT_S": "0"}
    command = [sys.executable, "-sE", str(program), "one", "gpu", "eu-west-1", "bucket"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "stampworks: this is gpu-003 of one",
        "stampworks: no node after 0 s, whatever it was doing",
        "stampworks: this machine has not become a node, and goes",
    ]
    assert log.read_text().split() == ["poweroff", "<>"]
    assert not (tmp_path / "folder").exists()


def test_bundle_programs_run_from_a_noexec_mount(tmp_path: Path) -> None:
    """Debian mounts /run so that no program there can be started."""
    folder = tmp_path / "folder"
    found = f"""
FOLDER = Path({str(folder)!r})
packages = str
fetch = lambda *_: (FOLDER / "configure").write_text("import sys; print(*sys.argv[1:])")
who = lambda: {{"name": "gpu-003"}}
"""
    program = tmp_path / "join"
    program.write_text(PROGRAM.with_name("join").read_text().replace("\n\nif __name__", f"\n{found}\nif __name__"))
    command = [sys.executable, "-sE", str(program), "one", "gpu", "eu-west-1", "bucket"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines()[-1] == str(folder)


def test_join_software_has_the_versions_of_the_release() -> None:
    """Missing software is installed in the form that the release names: wheels are no packages of the suite."""
    brought = runpy.run_path(str(PROGRAM.with_name("join")))["PACKAGES"]
    releases = {release.boot for release in catalog.releases().values()}
    assert [boot for boot in releases if boot and "==" not in "".join(boot)] == [tuple(brought)]


def test_a_node_runs_what_its_image_brings_by_itself(tmp_path: Path) -> None:
    """The program runs once, with the same arguments, and the bundle is started by the same Python."""
    own = tmp_path / "boot/bin/python3"
    own.parent.mkdir(parents=True)
    own.symlink_to(sys.executable)
    (tmp_path / "boot/pyvenv.cfg").write_text("include-system-site-packages = false\n")
    (own.with_name("ansible-playbook")).touch()
    (tmp_path / f"boot/lib/python3.{sys.version_info.minor}/site-packages/boto3").mkdir(parents=True)
    folder = tmp_path / "folder"
    found = f"""
OWN = Path({str(own)!r})
FOLDER = Path({str(folder)!r})
fetch = lambda *_: (FOLDER / "configure").write_text("import sys; print(sys.executable, sys.prefix, *sys.argv[1:])")
who = lambda: {{"name": "gpu-003"}}
"""
    program = tmp_path / "join"
    program.write_text(PROGRAM.with_name("join").read_text().replace("\n\nif __name__", f"\n{found}\nif __name__"))
    command = [sys.executable, "-sE", str(program), "one", "gpu", "eu-west-1", "bucket"]
    nothing = {"PATH": str(tmp_path), "LIMIT_S": "0"}  # a mistake here would install packages on this machine
    done = subprocess.run(command, env=nothing, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    said = ["stampworks: this is gpu-003 of one", f"{own} {tmp_path / 'boot'} {folder}"]
    assert done.stdout.splitlines() == said


def test_a_node_looks_where_the_role_puts_it() -> None:
    """The image has it at that path."""
    own = runpy.run_path(str(PROGRAM.with_name("join")))["OWN"]
    defaults = yaml.safe_load((playbooks_dir() / "roles/boot/defaults/main.yml").read_text())
    assert own == Path(defaults["boot_directory"], "bin/python3")
