"""Settings of elastic nodes from the plan."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE = "/etc/stampworks/power.json"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Settings:
    cluster: str
    region: str
    directory: str
    """Folder of the record of launches."""
    pools: dict[str, dict[str, Any]]
    """Pools by name: their elastic nodes, and their launch templates in order."""
    pause_s: float
    """Seconds of the first pause after a launch without capacity."""
    lag_s: float
    """Seconds that AWS may take to list instances that it has started."""

    def pool_of(self, node: str) -> str:
        """Empty for a node that is none of ours."""
        return next((name for name, pool in self.pools.items() if node in pool["nodes"]), "")


def load() -> Settings:
    os.environ["PATH"] = os.environ.get("STAMPWORKS_POWER_PATH", PATH)
    return Settings(**json.loads(Path(os.environ.get("STAMPWORKS_POWER_SETTINGS", FILE)).read_text()))
