"""A lab for the tests of hosts, started once for each file."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clouds.hosts.lab import GPUS, Lab, stop
from tests.cluster.lent import LentHosts


@pytest.fixture(scope="module")
def lent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LentHosts]:
    folder = tmp_path_factory.mktemp("lent")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STAMPWORKS_STATE", str(folder / "state"))
        lent = LentHosts(f"t{uuid.uuid4().hex[:8]}", folder / "keys", len(GPUS))
        try:
            lent.start()
            for host in ("h0", *GPUS):
                lent.run(host, "sh", "-c", f"echo {uuid.uuid4().hex} >/etc/machine-id")
            yield lent
        finally:
            stop(lent)


@pytest.fixture
def lab(lent: LentHosts, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Lab:
    """The lab with its declaration, not locked."""
    made = Lab(lent, tmp_path, capsys)
    made.declare()
    return made
