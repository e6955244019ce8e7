"""The part of a tensor on this rank, and its place in the whole."""

from __future__ import annotations

from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset


def local(value: Tensor) -> Tensor:
    """The part of it that is here."""
    if isinstance(value, DTensor):
        here: Tensor = value.to_local()
        return here
    return value


def place(value: Tensor) -> list[int]:
    """Return the offsets of the local part in the whole tensor."""
    if not isinstance(value, DTensor):
        return [0] * value.dim()
    _, start = compute_local_shape_and_global_offset(value.shape, value.device_mesh, value.placements)
    return list(start)


def same_part(whole: Tensor, value: Tensor) -> Tensor:
    """Return the part of a whole at the place of another tensor's local part."""
    spans = zip(place(value), local(value).shape, strict=True)
    return whole[tuple(slice(start, start + size) for start, size in spans)]
