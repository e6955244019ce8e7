"""Data-parallel JAX over all nodes: a process on each, with all of its devices.

The session supports only torch: here the first process writes the state as a complete file every SAVE steps.
"""

from __future__ import annotations

import os
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

STEPS, SAVE = int(os.environ.get("STEPS", "200")), 20
BATCH, WIDTH, RATE = 64, 32, 0.1
Weights = dict[str, jax.Array]


def loss_of(weights: Weights, batch: jax.Array) -> jax.Array:
    """Return the mean squared error of reconstructing the batch."""
    hidden = jnp.maximum(batch @ weights["up"], 0)
    return jnp.mean((hidden @ weights["down"] - batch) ** 2)


@jax.jit  # type: ignore[untyped-decorator]
def stepped(weights: Weights, batch: jax.Array) -> tuple[Weights, jax.Array]:
    """Return the weights after a step, and the loss before it."""
    loss, gradients = jax.value_and_grad(loss_of)(weights, batch)
    return jax.tree.map(lambda weight, gradient: weight - RATE * gradient, weights, gradients), loss


def begin(path: Path) -> tuple[int, dict[str, np.ndarray]]:
    """Return step and weights of the saved state, or those of a new run."""
    if path.exists():
        with np.load(path) as found:
            return int(found["step"]), {name: found[name] for name in ("up", "down")}
    chance = np.random.default_rng(0)
    draw = {"up": (WIDTH, 256), "down": (256, WIDTH)}
    return 0, {name: chance.normal(0, 0.1, shape).astype(np.float32) for name, shape in draw.items()}


def save(path: Path, step: int, weights: Weights) -> None:
    """Replace the saved state in one rename, so that a killed run leaves a complete one."""
    draft = path.with_suffix(".draft.npz")
    np.savez(draft, step=step, **{name: np.asarray(weight) for name, weight in weights.items()})
    draft.replace(path)


def main() -> None:
    """Train on all nodes of the job; the first one saves."""
    nodes, node = int(os.environ.get("NNODES", "1")), int(os.environ.get("RANK", "0"))
    if nodes > 1:
        jax.distributed.initialize(f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}", nodes, node)
    folder = Path(os.environ["CHECKPOINT_PATH"]).expanduser()
    folder.mkdir(parents=True, exist_ok=True)
    first, known = begin(folder / "state.npz")
    if first and node == 0:
        print(f"goes on after step {first}", flush=True)
    mesh = Mesh(np.array(jax.devices()), ("rows",))
    weights = jax.device_put(known, NamedSharding(mesh, PartitionSpec()))
    rows = NamedSharding(mesh, PartitionSpec("rows"))
    for step in range(first + 1, STEPS + 1):
        whole = np.random.default_rng(step).normal(size=(BATCH, WIDTH)).astype(np.float32)
        batch = jax.make_array_from_callback(whole.shape, rows, lambda part, whole=whole: whole[part])
        weights, loss = stepped(weights, batch)
        if (step % SAVE == 0 or step == STEPS) and node == 0:
            save(folder / "state.npz", step, weights)
            print(f"step {step}: loss {float(loss):.4f}, {len(jax.devices())} devices", flush=True)


if __name__ == "__main__":
    main()
