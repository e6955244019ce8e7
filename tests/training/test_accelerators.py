"""Tests on a real accelerator, which trains like a CPU and measures itself.

Off by default: `-m gpu`. Sharded layouts need several accelerators; a layout of a single rank uses the same code.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
import torch
from training import float8

from tests.training.runs import WAIT_S, WORKLOADS, Run, finished, running

pytestmark = pytest.mark.gpu
STEPS = 12
SETTINGS: dict[str, Any] = {
    "ranks": 1,
    "steps": STEPS,
    "batch": 6,
    "precision": "float32",
    "model": {"layers": 2, "width": 64, "heads": 4, "length": 64},
    "checkpoints": {"every_s": 600.0},
}
SLOWLY = {**SETTINGS, "pace_s": 0.2}
"""Settings that leave time to act during the run."""
LAYOUTS = ["ddp", "fsdp", "tp"]
NEAR = 1e-3
"""Tolerance of sums in another order."""
NARROW = 2e-2
"""Tolerance with numbers of 16 bits."""


@pytest.fixture(scope="module")
def processor(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Run on a processor, with which all others are compared."""
    return finished(tmp_path_factory.mktemp("processor"), **SETTINGS)


def assert_near(run: Run, other: Run, apart: float = NEAR) -> None:
    assert run.losses() == pytest.approx(other.losses(), rel=apart)


def test_a_run_that_may_have_an_accelerator_takes_it(processor: Run, tmp_path: Path) -> None:
    """A run without that right uses a processor: otherwise the tests here would prove nothing."""
    run = finished(tmp_path, accelerated=True, **{**SETTINGS, "steps": 1})
    assert run.events("ready")[0]["device"] == torch.cuda.get_device_name(0)
    assert processor.events("ready")[0]["device"] == platform.machine()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_it_learns_as_a_processor_does(layout: str, processor: Run, tmp_path: Path) -> None:
    """Both have the same first weights."""
    assert_near(finished(tmp_path, accelerated=True, layout=layout, **SETTINGS), processor)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_it_learns_with_short_numbers(layout: str, processor: Run, tmp_path: Path) -> None:
    """The default precision is short."""
    settings = {**SETTINGS, "precision": "auto"}
    assert_near(finished(tmp_path, accelerated=True, layout=layout, **settings), processor, NARROW)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_it_learns_compiled(layout: str, processor: Run, tmp_path: Path) -> None:
    assert_near(finished(tmp_path, accelerated=True, layout=layout, compile=True, **SETTINGS), processor)


@pytest.mark.parametrize("layout", ["ddp", "fsdp"])
def test_it_learns_with_eight_bits(layout: str, processor: Run, tmp_path: Path) -> None:
    """The test needs hardware that supports it."""
    if why := float8.why_not(torch.device("cuda" if torch.cuda.is_available() else "cpu")):
        pytest.skip(f"float8 needs {why}")
    settings = {**SETTINGS, "precision": "float8", "steps": 40}
    found = finished(tmp_path, accelerated=True, layout=layout, **settings).losses()
    assert found[40] < 0.8 * found[1]
    assert found[1] == pytest.approx(processor.losses()[1], rel=NARROW)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_killed_rank_goes_on_from_memory(layout: str, processor: Run, tmp_path: Path) -> None:
    with running(tmp_path, accelerated=True, layout=layout, **SLOWLY) as run:
        run.until_step(4)
        run.kill_rank(0)
        codes, said = run.end()
    assert codes == [0], said
    assert [event["source"] for event in run.events("ready")] == ["nothing", "memory"]
    again = run.events("ready")[1]["step"]
    assert again >= 3
    found, expected = run.losses(), processor.losses()
    assert found == pytest.approx({step: expected[step] for step in found}, rel=NEAR)
    assert expected.keys() - found.keys() <= {again}  # the kill may come after a step is safe and before it is reported


@pytest.mark.parametrize(("first", "then"), [(True, True), (True, False), (False, True)])
def test_a_stopped_run_goes_on_wherever_it_is_started_again(
    first: bool, then: bool, processor: Run, tmp_path: Path
) -> None:
    """The restart is on the same accelerator, on a CPU, or the other way round."""
    with running(tmp_path, accelerated=first, **SLOWLY) as run:
        run.until_step(4)
        run.agents[0].send_signal(signal.SIGTERM)
        codes, said = run.end()
        assert codes == [75], said
        stopped = run.last()["step"]
        run.accelerated = then
        run.start()
        codes, said = run.end()
    assert codes == [0], said
    again = run.events("ready")[-1]
    assert (again["source"], again["step"]) == ("checkpoint", stopped)
    assert_near(run, processor)


def test_the_first_checkpoint_does_not_keep_it_waiting(tmp_path: Path) -> None:
    """Memory for 0.6 GB was allocated during earlier steps."""
    model = {"layers": 4, "width": 1024, "heads": 8, "length": 64}
    settings = {**SETTINGS, "steps": 8, "pace_s": 0.5, "model": model, "snapshots": False}
    run = finished(tmp_path, accelerated=True, **settings)
    [saved] = run.events("checkpoint")
    assert saved["bytes"] > 5e8
    assert saved["blocked_s"] < 0.1


def test_more_ranks_than_accelerators_are_refused(tmp_path: Path) -> None:
    """The run is refused once for any number of ranks, and not retried."""
    count = torch.cuda.device_count()
    if not count:
        pytest.skip("a processor takes any number of ranks")
    with running(tmp_path, accelerated=True, **{**SETTINGS, "ranks": count + 1}) as run:
        codes, said = run.end()
    assert codes == [1], said
    assert f"{count + 1} ranks are to train on this node, which has {count} accelerator" in run.last()["text"]
    assert len(run.events("failure")) == len(run.events("generation")) == 1


# -- what it measures of itself


def measured(folder: Path, *programs: str, environment: Mapping[str, str] | None = None, **options: Any) -> Any:
    """Return the content of each program's file, checked against the schema."""
    command = [sys.executable, "-m", "validation", *programs, "--out", str(folder), "--options", json.dumps(options)]
    subprocess.run(command, cwd=WORKLOADS, env={**os.environ, **(environment or {})}, timeout=WAIT_S, check=True)
    schema = json.loads((WORKLOADS / "result.schema.json").read_text())
    found = {name: json.loads((folder / f"{name}.0.json").read_text()) for name in programs}
    for result in found.values():
        jsonschema.validate(result, schema)
        assert result["problems"] == []
    return found


MEASURED = {
    "matmul": {"matmul_bf16", "matmul_mismatches"},
    "memory": {"memory_copy", "memory_triad"},
    "copies": {"h2d_bandwidth", "d2h_bandwidth", "d2d_bandwidth"},
}


def test_programs_measure_it(tmp_path: Path) -> None:
    """Each accelerator has each quantity, and all its products are equal."""
    options: dict[str, Any] = {
        "matmul": {"kind": "bfloat16", "size": 1024, "seconds": 0.3, "warmup": 0.1},
        "memory": {"bytes": 2**26, "seconds": 0.2},
        "copies": {"bytes": 2**26, "seconds": 0.2},
    }
    found = measured(tmp_path, "inventory", *MEASURED, **options)
    devices = {f"cuda:{number}" for number in range(torch.cuda.device_count())}
    for name, quantities in MEASURED.items():
        values = {(value["quantity"], value["device"]): value["value"] for value in found[name]["values"]}
        assert set(values) == {(quantity, device) for quantity in quantities for device in devices}
        wrong = {key for key, value in values.items() if (value == 0) != (key[0] == "matmul_mismatches")}
        assert not wrong
        assert {text["name"] for text in found[name]["texts"] if text["quantity"] == "device_name"} == devices
    if shutil.which("nvidia-smi"):
        counted = [value for value in found["inventory"]["values"] if value["quantity"] == "accelerators"]
        assert [(value["value"], value["simulated"]) for value in counted] == [(len(devices), False)]


@pytest.mark.parametrize("kind", ["float32", "bfloat16", "float16"])
def test_a_turned_bit_is_found(kind: str, tmp_path: Path) -> None:
    """A bit of a product is turned, in each kind of number."""
    turned = {"STAMPWORKS_FAULT_BITFLIP": "1"}
    options = {"kind": kind, "size": 512, "seconds": 0.2, "warmup": 0.0}
    [found] = measured(tmp_path, "matmul", environment=turned, matmul=options).values()
    wrong = [value["value"] for value in found["values"] if value["quantity"] == "matmul_mismatches"]
    assert wrong == [1.0] * max(1, torch.cuda.device_count())
    assert found["environment"]["STAMPWORKS_FAULT_BITFLIP"] == "1"
