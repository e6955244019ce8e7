"""Programs that roles install on nodes, run unchanged."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import os
import re
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from stampworks.configuration import playbooks_dir

ROLES = playbooks_dir() / "roles"
NVIDIA_SMI = ROLES / "accelerator/files/nvidia-smi"
OF_A_JOB = ROLES / "accelerator/files/nvidia-smi-of-a-job"
METRICS = ROLES / "metrics/files/stampworks-metrics"
NAMES = ROLES / "slurm_worker/files/names"
TASK_PROLOG = ROLES / "slurm_worker/files/task-prolog"


def accelerator(index: int, **more: Any) -> dict[str, Any]:
    return {
        "index": index,
        "name": "Simulated H100",
        "uuid": f"GPU-{index}",
        "memory_mib": 81920,
        "memory_used_mib": 20,
        "utilization_percent": 0,
        "temperature_c": 34,
        "power_w": 70,
        "ecc_uncorrected": 0,
        "lost": False,
        **more,
    }


def nvidia_smi(tmp_path: Path, *arguments: str, accelerators: list[dict[str, Any]] | None = None) -> Any:
    state = tmp_path / "accelerators.json"
    if accelerators is not None:
        state.write_text(json.dumps({"simulated": True, "driver_version": "simulated", "accelerators": accelerators}))
    environment = {**os.environ, "STAMPWORKS_ACCELERATORS": str(state)}
    command = [sys.executable, "-IS", str(NVIDIA_SMI), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False, env=environment)


BOTH = [accelerator(0), accelerator(1, ecc_uncorrected=3)]


def test_a_list_of_accelerators(tmp_path: Path) -> None:
    """The format is that of the real tool, a line for each."""
    done = nvidia_smi(tmp_path, "-L", accelerators=BOTH)
    assert done.stdout == "GPU 0: Simulated H100 (UUID: GPU-0)\nGPU 1: Simulated H100 (UUID: GPU-1)\n"


@pytest.mark.parametrize(
    ("options", "lines"),
    [
        ("csv", ["index, memory.total [MiB], memory.free [MiB]", "0, 81920 MiB, 81900 MiB"]),
        ("csv,noheader", ["0, 81920 MiB, 81900 MiB"]),
        ("csv,noheader,nounits", ["0, 81920, 81900"]),
    ],
)
def test_a_query(tmp_path: Path, options: str, lines: list[str]) -> None:
    """The formats are those that scripts read."""
    query = "--query-gpu=index,memory.total,memory.free"
    done = nvidia_smi(tmp_path, query, f"--format={options}", accelerators=BOTH[:1])
    assert done.stdout.splitlines() == lines


def test_a_lost_accelerator_is_not_there(tmp_path: Path) -> None:
    """The accelerator fell off the bus: it is missing in list and count."""
    found = [accelerator(0, lost=True), accelerator(1)]
    done = nvidia_smi(tmp_path, "--query-gpu=index,count", "--format=csv,noheader", accelerators=found)
    assert done.stdout == "1, 1\n"


def test_it_says_that_it_is_simulated(tmp_path: Path) -> None:
    """Its table must not be taken for a measurement."""
    assert "SIMULATED" in nvidia_smi(tmp_path, accelerators=BOTH).stdout.splitlines()[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--query-gpu=index,wings", "--format=csv"],
            'Field "wings" is not a valid field to query (simulated nvidia-smi).',
        ),
        (["--query-gpu=index"], "simulated nvidia-smi: --format=csv[,noheader][,nounits] is all it can"),
        (
            ["topo", "-m"],
            "simulated nvidia-smi: knows no topo -m; it can -L, --query-gpu=... --format=csv and no argument",
        ),
    ],
)
def test_unsupported_request_fails(tmp_path: Path, arguments: list[str], message: str) -> None:
    """A script must not take missing output for health."""
    done = nvidia_smi(tmp_path, *arguments, accelerators=BOTH)
    assert (done.returncode, done.stderr) == (1, message + "\n")


def test_a_node_without_state_has_no_accelerators(tmp_path: Path) -> None:
    """The tool is in every image; accelerators are not in every node."""
    done = nvidia_smi(tmp_path, "-L")
    assert done.returncode == 1
    assert done.stderr.endswith("accelerators.json is not there: this node has no accelerators\n")


FOUR = [accelerator(index) for index in range(4)]


def in_a_job(tmp_path: Path, title: str, *variables: str) -> str:
    """Return the list of a job's program: its parent has the name of Slurm's own, and gives it these variables."""
    (tmp_path / "accelerators.json").write_text(json.dumps({"accelerators": FOUR}))
    (tmp_path / "nvidia-smi").write_text(f"#!/bin/sh\nexec {sys.executable} -IS {NVIDIA_SMI} $*\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    told = {"STAMPWORKS_ACCELERATORS": tmp_path / "accelerators.json", "STAMPWORKS_NVIDIA_SMI": tmp_path / "nvidia-smi"}
    task = ["env", *variables, "sh", "-c", f"{sys.executable} -IS {OF_A_JOB} -L; true"]
    step = ["bash", "-c", f"exec -a '{title}' bash -c {shlex.quote(shlex.join(task) + '; true')}"]
    environment = {**os.environ, **{name: str(value) for name, value in told.items()}}
    done = subprocess.run(step, capture_output=True, text=True, timeout=30, check=True, env=environment)
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize(
    ("title", "variables", "shown"),
    [
        ("slurmstepd: [12.0]", ["SLURM_STEP_GPUS=1,3"], [1, 3]),
        ("slurmstepd: [12.0]", ["SLURM_STEP_GPUS=2", "SLURM_JOB_GPUS=0,2"], [2]),
        ("slurmstepd: [12.0]", ["SLURM_JOB_GPUS=0,2"], []),
        ("slurmstepd: [12.batch]", ["SLURM_JOB_GPUS=0,2"], [0, 2]),
        ("slurmstepd: [12+1.interactive]", ["SLURM_STEP_GPUS=0"], [0]),
        ("slurmd", [], [0, 1, 2, 3]),
    ],
)
def test_a_job_sees_its_own_accelerators(tmp_path: Path, title: str, variables: list[str], shown: list[int]) -> None:
    """Numbers start at 0, as the driver numbers accelerators of a control group; outside of jobs all are visible."""
    lines = [f"GPU {index}: Simulated H100 (UUID: GPU-{which})\n" for index, which in enumerate(shown)]
    assert in_a_job(tmp_path, title, *variables) == "".join(lines)


def loaded(program: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    loader = importlib.machinery.SourceFileLoader(program.name.replace("-", "_"), str(program))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    loader.exec_module(module)
    return module


# --- logs


def test_batches_span_less_than_a_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CloudWatch Logs refuses calls with entries more than 24 hours apart; clocks may also go back."""
    at_h = [24, 46, 2, 3, 26, 30]
    said = [{"__CURSOR": f"c{h}", "__REALTIME_TIMESTAMP": f"{h * 3_600_000_000}", "MESSAGE": "x"} for h in at_h]
    (tmp_path / "said").write_text("".join(json.dumps(each) + "\n" for each in said))
    (tmp_path / "journalctl").write_text(f"#!/bin/sh\ncat {tmp_path}/said\nexec sleep 10\n")
    (tmp_path / "journalctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    module = loaded(ROLES / "logs/files/ship-logs", monkeypatch)
    journal = module.Journal("")
    with journal._process as process:
        batches = journal.batches()
        found = [[each.at_ms // 3_600_000 for each in next(batches)] for _ in range(3)]
        process.kill()
    assert found == [[24, 46], [2, 3], [26, 30]]


# --- metrics


def test_metrics_are_in_prometheus_form() -> None:
    """Each line has a name, labels and a number; each collector reports whether it could read."""
    done = subprocess.run(
        [sys.executable, "-IS", METRICS, "--once"], capture_output=True, text=True, timeout=30, check=True
    )
    names = {line.partition("{")[0].split()[0] for line in done.stdout.splitlines()}
    assert {"node_memory_MemTotal_bytes", "node_load1", "node_network_up", "stampworks_collector_up"} <= names
    assert [float(line.rsplit(" ", 1)[1]) for line in done.stdout.splitlines()]


def test_metrics_are_served() -> None:
    """Each connection gets one answer, and a silent client delays the next one only briefly."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    process = subprocess.Popen([sys.executable, "-IS", METRICS, str(port)])
    try:
        for _ in range(2):
            assert ask(port).startswith("HTTP/1.1 200 OK\r\n")
    finally:
        process.kill()
        process.wait()


def ask(port: int) -> str:
    for _ in range(100):
        try:
            connection = socket.create_connection(("127.0.0.1", port), timeout=5)
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
    with connection:
        connection.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        return b"".join(iter(lambda: connection.recv(65536), b"")).decode()


# --- prolog, task prolog, epilog


def around_a_job(folder: Path, program: str) -> str:
    """Return the output of a program that Slurm runs around job 7, with its paths below a folder, on a healthy node."""
    text = (ROLES / "slurm_worker/files" / program).read_text()
    script = folder / program
    script.write_text(re.sub(r"/(?=(tmp|run|usr/local|etc)/)", f"{folder}/", text))
    environment = {"SLURM_JOB_ID": "7", "SLURM_JOB_UID": str(os.getuid()), "SLURM_JOB_GID": str(os.getgid())}
    return subprocess.check_output(["sh", str(script)], text=True, timeout=60, env=os.environ | environment)


@pytest.mark.parametrize("plant", ["touch tmp/job-7", "mkdir tmp/job-7", "ln -s ../elsewhere tmp/job-7"])
def test_job_folder_cannot_be_prepared_by_others(plant: str, tmp_path: Path) -> None:
    """A file named by the job's number alone could block the job, or be read by it."""
    for program in ("sbin/stampworks-health", "libexec/stampworks/names"):
        stub = tmp_path / "usr/local" / program
        stub.parent.mkdir(parents=True)
        stub.symlink_to("/bin/true")
    for name in ("tmp", "run", "elsewhere"):
        (tmp_path / name).mkdir()
    subprocess.run(plant.split(), cwd=tmp_path, timeout=60, check=True)
    theirs = tmp_path / "tmp/job-7"
    around_a_job(tmp_path, "prolog")
    [name, value] = around_a_job(tmp_path, "task-prolog").rstrip().split("=")
    folder = Path(value)
    assert (name, folder.parent, folder.stat().st_mode & 0o7777) == ("export TMPDIR", theirs.parent, 0o700)
    assert folder != theirs
    assert [*folder.iterdir()] == []
    (folder / "file").touch()
    around_a_job(tmp_path, "epilog")
    assert [*theirs.parent.iterdir()] == [theirs]
    assert [*(tmp_path / "run/stampworks-jobs").iterdir()] == []
    assert around_a_job(tmp_path, "task-prolog") == ""


def test_the_task_prolog_hands_the_environment_on(tmp_path: Path) -> None:
    """Variables of the job itself stay, and nothing in a value is run."""
    script = tmp_path / "task-prolog"
    environment = tmp_path / "env"
    environment.write_text("# comment\n\nNCCL_SOCKET_IFNAME=rail0,rail1\nGLOO_SOCKET_IFNAME=rail0\nX=$(touch y) `id`\n")
    script.write_text(TASK_PROLOG.read_text().replace("/etc/stampworks/collectives.env", str(environment)))
    done = subprocess.run(
        ["sh", str(script)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        cwd=tmp_path,
        env={"GLOO_SOCKET_IFNAME": "eth0", "SLURM_JOB_ID": "0"},
    )
    assert done.stdout == "export NCCL_SOCKET_IFNAME=rail0,rail1\nexport X=$(touch y) `id`\n"
    assert not (tmp_path / "y").exists()


STEP = {
    "SLURM_JOB_ID": "7",
    "SLURM_JOB_NODELIST": "gpu-[001-003]",
    "SLURM_STEP_ID": "2",
    "SLURM_STEP_NODELIST": "gpu-[002-003]",
    "SLURM_STEP_NUM_TASKS": "4",
    "SLURM_PROCID": "3",
    "SLURM_LOCALID": "1",
}
OURS = {"MASTER_ADDR": "gpu-001", "MASTER_PORT": "20056", "STAMPWORKS_MASTER": "gpu-001:20056"}


def told(tmp_path: Path, parent: str, environment: dict[str, str]) -> str:
    """Return the program's output in a process of Slurm with this name."""
    (tmp_path / "cmdline").write_bytes(parent.encode() + bytes(9))
    text = TASK_PROLOG.with_name("task-environment").read_text()
    text = text.replace("/proc/$PPID/cmdline", str(tmp_path / "cmdline"))
    script = tmp_path / "task-environment"
    script.write_text(text.replace("/usr/local/libexec/stampworks/task-prolog", "true"))
    path = {"PATH": os.environ["PATH"]}
    argv = ["sh", str(script)]
    return subprocess.run(
        argv, capture_output=True, text=True, timeout=60, check=True, env=path | environment
    ).stdout.replace("export ", "")


def test_a_task_knows_its_peers(tmp_path: Path) -> None:
    """Peers are those of its own step, also within a script that has the job's peers."""
    own = "MASTER_ADDR=gpu-002\nMASTER_PORT=20058\nSTAMPWORKS_MASTER=gpu-002:20058\n"
    place = "RANK=3\nWORLD_SIZE=4\nLOCAL_RANK=1\n"
    assert told(tmp_path, "slurmstepd: [7.2]", STEP) == own + place
    assert told(tmp_path, "slurmstepd: [7.2]", STEP | OURS) == own + place
    chosen = {"MASTER_ADDR": "gpu-003", "MASTER_PORT": "29500"}
    assert told(tmp_path, "slurmstepd: [7.2]", STEP | chosen) == place
    assert told(tmp_path, "slurmstepd: [7.2]", STEP | OURS | chosen) == place


@pytest.mark.parametrize(
    ("nodes", "name"),
    [("gpu-[001-004]", "gpu-001"), ("gpu-[003,007]", "gpu-003"), ("gpu-009", "gpu-009"), ("a-1,b-[2-3]", "a-1")],
)
def test_a_script_knows_where_its_peers_meet(tmp_path: Path, nodes: str, name: str) -> None:
    """The script has no rank: a job submitted from a step would inherit that step's rank."""
    said = told(tmp_path, "slurmstepd: [7.batch]", STEP | {"SLURM_JOB_NODELIST": nodes})
    master = f"MASTER_ADDR={name}\nMASTER_PORT=20056\nSTAMPWORKS_MASTER={name}:20056\n"
    assert said == master + "unset RANK\nunset WORLD_SIZE\nunset LOCAL_RANK\n"


@pytest.mark.parametrize(
    ("output", "error", "blamed"),
    [
        ("{0}/out-%j", "{0}/out-%j", ""),
        ("{0}/absent/%x-%j", "{0}/out", ""),  # unknown paths are not blamed
        ("{0}/absent/out-%j", "{0}/out", "{0}/absent/out-7"),
        ("out", "{0}/theirs", "{0}/theirs"),
    ],
)
def test_why_an_output_cannot_be_written(tmp_path: Path, output: str, error: str, blamed: str) -> None:
    """The job shows the reason, because Slurm reports only the signal."""
    programs = {
        "setpriv": 'shift 4; case $3 in */theirs) exit 1 ;; esac; exec "$@"',  # root may write anything
        "scontrol": f'if [ "$1" = show ]; then echo gpu-001; else printf %s "$3" >{tmp_path}/said; fi',
    }
    for name, text in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "theirs").touch()
    text = TASK_PROLOG.with_name("output").read_text().replace("PATH=", f"PATH={tmp_path}:")
    (tmp_path / "program").write_text(text)
    environment = {
        "SLURM_JOB_STDOUT": output.format(tmp_path),
        "SLURM_JOB_STDERR": error.format(tmp_path),
        "SLURM_JOB_WORK_DIR": str(tmp_path),
        "SLURM_JOB_NODELIST": "gpu-001",
        "SLURMD_NODENAME": "gpu-001",
        "SLURM_JOB_ID": "7",
        "SLURM_JOB_UID": "2001",
        "SLURM_JOB_GID": "2001",
        "SLURM_JOB_USER": "alice",
    }
    subprocess.run(["sh", str(tmp_path / "program")], timeout=60, check=True, env=environment)
    said = (tmp_path / "said").read_text() if blamed else not (tmp_path / "said").exists()
    expected = f"admincomment=alice cannot write the output {blamed.format(tmp_path)} on gpu-001: "
    assert said is True or str(said).startswith(expected)


# --- guard-metadata


def test_rules_that_keep_users_from_the_metadata_stay() -> None:
    """systemd-networkd removes all foreign rules unless they are marked as the kernel's."""
    guard = f"sh {ROLES / 'metadata/files/guard-metadata'} 169.254.169.254"
    look = "ip -4 -details rule list priority 100"
    command = ["unshare", "--net", "sh", "-c", f"{guard} && {guard} && {look}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.splitlines() == [
        f"100:\tfrom all to 169.254.169.254 uidrange {uids} prohibit proto kernel"
        for uids in ("1000-60000", "65534-4294967294")
    ]


# --- names


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Return a node's file of names when a job begins on nodes with addresses from Slurm."""
    module = loaded(NAMES, monkeypatch)
    hosts = tmp_path / "hosts"
    always = f"127.0.0.1 localhost\n10.0.0.1 gpu-001 # always there\n{module.FOLLOW}"
    hosts.write_text(always)
    monkeypatch.setattr(module, "HOSTS", str(hosts))
    monkeypatch.setattr(module, "LOCK", str(tmp_path / "lock"))

    def begin(**at: str) -> str:
        nodes = [name.replace("_", "-") for name in at]

        def scontrol(*words: str) -> str:
            if words[:2] == ("show", "hostnames"):
                return "\n".join(nodes)
            assert words[0] == "getaddrs"
            return "".join(f"{name}: {at[name.replace('-', '_')]}\n" for name in words[1].split(","))

        monkeypatch.setattr(module, "scontrol", scontrol)
        monkeypatch.setenv("SLURM_JOB_NODELIST", ",".join(nodes))
        module.main()
        after = hosts.read_text()
        assert after.startswith(always), "what the playbooks wrote stays as it is"
        return after.removeprefix(always)

    return begin


def test_nodes_of_a_job_that_started_with_it_are_known_by_name(names: Callable[..., str]) -> None:
    """Permanent nodes are left out; nodes that left, or whose address changed, are removed."""
    assert names(gpu_001="10.0.0.1:6818") == ""
    assert names(gpu_001="10.0.0.1:6818", gpu_002="10.0.0.7:6818") == "10.0.0.7 gpu-002\n"
    assert names(gpu_003="10.0.0.8:6818") == "10.0.0.7 gpu-002\n10.0.0.8 gpu-003\n"
    assert names(gpu_003="10.0.0.9:6818") == "10.0.0.7 gpu-002\n10.0.0.9 gpu-003\n"
    assert names(gpu_004="10.0.0.7:6818") == "10.0.0.9 gpu-003\n10.0.0.7 gpu-004\n"
    assert names(gpu_005="[fd00::5]:6818").splitlines()[-1] == "fd00::5 gpu-005"


def test_refuses_malformed_addresses_of_slurm(names: Callable[..., str], tmp_path: Path) -> None:
    """Otherwise the text would become a line of a trusted file."""
    with pytest.raises(ValueError, match="does not appear to be an IPv4 or IPv6 address"):
        names(gpu_002="10.0.0.7 head\n10.0.0.8:6818")
    assert "head" not in (tmp_path / "hosts").read_text()
