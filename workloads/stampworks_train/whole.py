"""The state of a model and its optimizers: tensors that are cut among ranks, and values that each rank has."""

from __future__ import annotations

import hashlib
import json
import pickle
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import get_model_state_dict, get_state_dict, set_state_dict

from . import chance
from .part import local
from .snapshot import Part

RANKS = "ranks"


class Stateful(Protocol):
    """A sampler, a scheduler, a scaler, or another object that can return and restore its state."""

    def state_dict(self) -> Any:
        """Return the state as torch's modules do."""

    def load_state_dict(self, state: Any) -> Any:
        """Take a state as torch's modules do."""


class Whole:
    """The state of a run on this rank.

    Tensors of the model and its optimizers are the same on all ranks, or parts of a DTensor. The states of `others` are
    separate for each rank.
    """

    def __init__(
        self, model: nn.Module, optimizers: Sequence[torch.optim.Optimizer], others: Mapping[str, Stateful]
    ) -> None:
        self.model, self.optimizers, self.others = model, optimizers, others

    @property
    def fingerprint(self) -> str:
        """Return a digest of the model's shape: a checkpoint of another shape does not fit."""
        shapes = {name: list(weight.shape) for name, weight in get_model_state_dict(self.model).items()}
        return hashlib.sha256(json.dumps(shapes, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def parameters(self) -> int:
        """Number of weights, before they are sharded."""
        return sum(weight.numel() for weight in self.model.parameters())

    def tensors(self) -> dict[str, Any]:
        """Return the tensors as torch.distributed.checkpoint expects them. An optimizer without a step creates its
        state first."""
        model, optimizer = get_state_dict(self.model, self.optimizers)
        return {"model": model, "optimizer": optimizer}

    def take(self, state: dict[str, Any], values: bytes, own: bool) -> None:
        """Continue from a state. `own`: whether the values are those of this rank."""
        set_state_dict(
            self.model, self.optimizers, model_state_dict=state["model"], optim_state_dict=state["optimizer"]
        )
        told = pickle.loads(values)  # noqa: S301 (of this run, as the checkpoint is)
        for name, other in self.others.items():
            if name not in told["others"]:
                raise ValueError(f"the state that this run goes on from has no {name!r}: it was not given to Session")
            other.load_state_dict(told["others"][name])
        if own:
            chance.restore(told["chance"])

    def values(self, plain: dict[str, Any] | None = None) -> bytes:
        """Return the values of this rank, with the state's other values if requested."""
        states = {name: other.state_dict() for name, other in self.others.items()}
        return pickle.dumps({"chance": chance.seen(), "others": states, "plain": plain or {}})


def parts(state: Any) -> Iterator[Part]:
    """The tensors of a state, with this rank's part of each."""
    for name, value in leaves(state):
        if isinstance(value, Tensor):
            here = local(value.detach())
            if here.numel():
                yield name, value, here


def plain(state: Any) -> dict[str, Any]:
    """The values of a state that are no tensors, by their names."""
    return {name: value for name, value in leaves(state) if not isinstance(value, Tensor)}


def replaced(state: Any, values: Mapping[str, Any], at: str = "") -> Any:
    """A state with these values in their places."""
    if isinstance(state, dict):
        return {key: replaced(value, values, f"{at}/{key}") for key, value in state.items()}
    if isinstance(state, list):
        return [replaced(value, values, f"{at}/{number}") for number, value in enumerate(state)]
    return values.get(at, state)


def leaves(state: Any, at: str = "") -> Iterator[tuple[str, Any]]:
    """Yield all values of nested dicts and lists, with their paths."""
    if isinstance(state, dict):
        for key, value in state.items():
            yield from leaves(value, f"{at}/{key}")
    elif isinstance(state, list):
        for number, value in enumerate(state):
            yield from leaves(value, f"{at}/{number}")
    else:
        yield at, state
