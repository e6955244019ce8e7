"""Inventory of this node: software versions, settings that jobs see, accelerators, and kernel messages about them.

A comparison of nodes finds differences; nothing here is right or wrong by itself.
"""

from __future__ import annotations

import csv
import hashlib
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .ranks import Ranks
from .result import Answer

PACKAGES = ("python3-torch", "python3-numpy", "slurmd", "libopenblas0-pthread")
INTERFACES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "NCCL_IB_HCA")
SLURM = ("/run/slurm/conf", "/etc/slurm")
FIELDS = {
    "ecc.errors.uncorrected.volatile.total": ("accelerator_ecc_uncorrected", "count"),
    "ecc.errors.corrected.volatile.total": ("accelerator_ecc_corrected", "count"),
    "temperature.gpu": ("accelerator_temperature", "C"),
    "power.draw": ("accelerator_power", "W"),
    "memory.total": ("accelerator_memory", "MiB"),
    "memory.used": ("accelerator_memory_used", "MiB"),
    "pcie.link.gen.current": ("accelerator_pcie_generation", "count"),
    "pcie.link.gen.max": ("accelerator_pcie_generation_max", "count"),
    "pcie.link.width.current": ("accelerator_pcie_width", "count"),
    "pcie.link.width.max": ("accelerator_pcie_width_max", "count"),
}
WORDS = {"name": "accelerator_name", "driver_version": "driver_version", "clocks_throttle_reasons.active": "throttle"}
XID = re.compile(r"NVRM: Xid \(([^)]*)\): (\d+)")
XIDS_MAX = 50


@dataclass(frozen=True)
class Options:
    """Settings of the inventory."""

    wait: float = 10.0
    """Seconds that a program of the node may take to answer."""

    def __post_init__(self) -> None:
        if self.wait <= 0:
            raise ValueError("wait must be more than 0")


def run(ranks: Ranks, options: Options, answer: Answer) -> None:  # noqa: ARG001 (as every program)
    """Report versions, settings, accelerators and kernel messages."""
    answer.text("library_version", "kernel", platform.release())
    answer.text("library_version", "python", platform.python_version())
    _packages(options.wait, answer)
    for name in INTERFACES:
        if name in os.environ:
            answer.text("interface", name, os.environ[name])
    _slurm(answer)
    _accelerators(options.wait, answer)
    _complaints(options.wait, answer)


def _packages(wait: float, answer: Answer) -> None:
    if shutil.which("dpkg-query") is None:
        return
    query = ["dpkg-query", "--show", "--showformat", "${db:Status-Status} ${Package} ${Version}\\n", *PACKAGES]
    for line in said(query, wait).splitlines():
        status, name, version = line.split(" ", 2)
        if status == "installed":
            answer.text("library_version", name, version)


def _slurm(answer: Answer) -> None:
    """Digests of the configuration that slurmd uses."""
    for folder in map(Path, SLURM):
        files = sorted(path for path in folder.glob("*.conf") if path.is_file())
        for path in files:
            try:
                answer.text("slurm_configuration", path.name, hashlib.sha256(path.read_bytes()).hexdigest())
            except OSError as error:
                answer.problem(f"{path}: {error.strerror}")
        if files:
            return


def _accelerators(wait: float, answer: Answer) -> None:
    if shutil.which("nvidia-smi") is None:
        return
    try:
        known = [*WORDS, *FIELDS]
        while True:
            query = f"--query-gpu=index,{','.join(known)}"
            done = ran(["nvidia-smi", query, "--format=csv,noheader,nounits"], wait)
            strange = re.search(r'Field "([^"]+)" is not a valid field', done.stdout + done.stderr)
            if strange is None or strange[1] not in known:
                break
            known.remove(strange[1])  # older drivers have fewer fields
    except OSError as error:
        answer.problem(f"nvidia-smi: {error}")
        return
    if done.returncode:
        answer.problem(f"nvidia-smi: exit code {done.returncode}: {done.stdout}{done.stderr}")
        return
    rows = [[cell.strip() for cell in row] for row in csv.reader(done.stdout.splitlines())]
    simulated = any("simulated" in cell.lower() for row in rows for cell in row)
    answer.value("accelerators", "count", float(len(rows)), simulated=simulated)
    for index, *cells in rows:
        _accelerator(index, dict(zip(known, cells, strict=False)), simulated, answer)


def _accelerator(index: str, cells: dict[str, str], simulated: bool, answer: Answer) -> None:
    """Report an accelerator. A field that it does not know is left out: [N/A] is not 0."""
    for field, cell in cells.items():
        if field in WORDS and not cell.startswith("["):
            answer.text(WORDS[field], f"accelerator {index}", cell)
        elif field in FIELDS and re.fullmatch(r"\d+(\.\d+)?", cell):
            quantity, unit = FIELDS[field]
            answer.value(quantity, unit, float(cell), device=index, simulated=simulated)


def _complaints(wait: float, answer: Answer) -> None:
    """Xid lines of the kernel's log, which this process may not be allowed to read."""
    if shutil.which("dmesg") is None:
        return
    try:
        done = ran(["dmesg"], wait)
    except OSError as error:
        answer.problem(f"dmesg: {error}")
        return
    if done.returncode:
        answer.text("kernel_log", "dmesg", f"cannot be read: {done.stderr}")
        return
    found = XID.findall(done.stdout)
    answer.value("xids", "count", float(len(found)))
    for device, number in found[-XIDS_MAX:]:
        answer.text("xid", device, number)


def said(command: Sequence[str], wait: float) -> str:
    """Return a program's standard output. Raise OSError when it does not answer."""
    return ran(command, wait).stdout


def ran(command: Sequence[str], wait: float) -> subprocess.CompletedProcess[str]:
    """Return the answer of a program of the node; raise OSError if there is none."""
    try:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=wait,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise TimeoutError(f"no answer within {wait:g} s") from None
