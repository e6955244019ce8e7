"""Requirements of the other tests here."""

from __future__ import annotations

import torch
import torch.distributed


def test_torch_can_train_on_this_machine() -> None:
    assert torch.distributed.is_available()
    assert torch.distributed.is_gloo_available()
