"""Recipes, submitted from the clone by the command of their README."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable

from tests.cluster.stack import ROOT, Stack

RECIPES = ROOT / "workloads" / "recipes"
LIMIT_S = 900
ENDS = {
    "torchrun-ddp": "step 60: loss",
    "tp-pp": "step 50: loss",
    "accelerate": "step 60: loss",
    "hf-trainer": "'train_loss'",
    "jax": "step 60: loss",
    "deepspeed": '"stage": 3',
    "ray-train": "finished: {'step': 60",
}
"""Part of the last lines of each recipe that trains, after 60 steps."""
SAVED = {"jax": "state.npz", "deepspeed": "latest", "ray-train": "run/checkpoint_*"}
"""Files of a whole checkpoint, in recipes with checkpoints of their own."""
_SESSION = "checkpoints/*/manifest.json"
PLAIN = ("torchrun-ddp", "tp-pp", "evaluation")
"""Recipes without packages beside torch."""


def submit(stack: Stack, name: str, *options: str) -> str:
    """Return the output of the command, which must pass."""
    job = ["stampworks", "submit", str(RECIPES / name / "job.yaml")]
    words = job if name in PLAIN else [str(RECIPES / "run.sh"), name]
    done = subprocess.run(
        [*words, "-s", "test", "--user", "alice", *options],
        cwd=stack.folder,
        env=stack.environment(),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def has_saved(shell: Callable[[str], str], runs: str, name: str) -> bool:
    """Whether a recipe has a whole checkpoint in the folder of its user's runs."""
    return bool(shell(f"ls {runs}/{name}/{SAVED.get(name, _SESSION)} 2>/dev/null || true"))


def has_gone_on(shell: Callable[[str], str], runs: str, name: str, log: str) -> bool:
    """Whether a recipe has been started again and has its state from a checkpoint."""
    if name in SAVED:
        return "goes on after step" in shell(f"cat {log}")
    events = [json.loads(line) for line in shell(f"cat {runs}/{name}/events.jsonl").splitlines() if line.endswith("}")]
    sources = [event["source"] for event in events if event["what"] == "ready"]
    assert set(sources) <= {"nothing", "checkpoint"}, "ranks that go on from memory have lost no node"
    return sources[-1:] == ["checkpoint"]
