"""Train on this node together with the other nodes of the job, and continue when some of them are lost.

    python3 -m training --options FILE-OR-JSON

Slurm's srun starts it once on each node; started by hand, it uses a single node. Events are written to `events.jsonl`
in the run's folder, and as text to standard output of the first node.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from validation.options import OptionError, load, read
from validation.ranks import Ranks

from .agent import Agent
from .coordinator import FAILED, LOST
from .settings import Settings


def main(argv: Sequence[str]) -> int:
    """Run this node's agent until the run ends, and return the exit status."""
    parser = argparse.ArgumentParser(prog="training", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--options", metavar="FILE-OR-JSON", required=True, help="the run's settings, see settings.py")
    try:
        settings = read(Settings, load(parser.parse_args(argv).options), "training")
        Path(settings.folder).mkdir(parents=True, exist_ok=True)
    except (OptionError, OSError) as error:
        print(f"training: {error}", file=sys.stderr)
        return 2
    try:
        return asyncio.run(Agent(settings, Ranks(settings.cluster)).run())
    except OSError as error:
        print(f"training: {error}", file=sys.stderr)
        return LOST if isinstance(error, ConnectionError | TimeoutError) else FAILED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
