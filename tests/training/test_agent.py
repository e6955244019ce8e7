"""An agent whose first node is missing."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path
from typing import Any

import pytest
from training import agent
from training.agent import Agent
from training.coordinator import LOST
from training.settings import Settings
from validation.ranks import Ranks


@pytest.mark.parametrize("code", [errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ECONNREFUSED, errno.ETIMEDOUT])
def test_a_first_node_that_cannot_be_reached_is_lost(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Any error of the system means that the job must be requeued."""

    async def told(_: Agent) -> dict[str, Any]:
        return {"address": "10.77.1.1", "port": 4, "secret": "of this test"}

    async def refused(*_: Any) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setenv("SLURM_PROCID", "1")
    monkeypatch.setenv("SLURM_NTASKS", "2")
    monkeypatch.setattr(agent, "_fork_server", lambda: None)
    monkeypatch.setattr(agent, "connect", refused)
    monkeypatch.setattr(Agent, "_told_where", told)
    monkeypatch.setattr(Agent, "_devices", lambda _: 1)
    settings = Settings("demo", str(tmp_path))
    assert asyncio.run(Agent(settings, Ranks(settings.cluster)).run()) == LOST
    assert f"the coordinator does not answer: [Errno {code}] {os.strerror(code)}" in capsys.readouterr().err
