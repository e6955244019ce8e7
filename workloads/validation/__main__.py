"""Run validation programs on this node, one after the other, and print their results.

    python3 -m validation PROGRAM [PROGRAM ...] [--options FILE-OR-JSON] [--out FOLDER]

Started once on each node, by Slurm's srun or by torchrun, the programs find each other; started by hand, there is a
single rank. Results go to standard output in lines for programs, and to standard error for people.
"""

from __future__ import annotations

import argparse
import datetime
import faulthandler
import importlib
import json
import os
import platform
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from . import result
from .meeting import Lost
from .options import OptionError, load, read
from .ranks import Cluster, Ranks
from .result import Answer

PROGRAMS = (
    *("checkpoint", "clocks", "collectives", "copies", "fabric", "inventory", "limits", "loading", "matmul", "memory"),
    *("pairs", "storage", "tools"),
)
TELLING = ("CUDA_", "GLOO_", "MKL_", "NCCL_", "OMP_", "OPENBLAS_", "STAMPWORKS_FAULT_", "TORCH_", "UCX_")
"""Prefixes of variables that change measurements, so that a result contains them."""


def main(argv: Sequence[str]) -> int:
    """Run the programs that the options name, print their answers, and return the exit status."""
    arguments = _arguments(argv)
    try:
        given = load(arguments.options)
        cluster = read(Cluster, given.get("cluster", {}), "cluster")
        if strange := [name for name in given if name not in (*PROGRAMS, "cluster")]:
            raise OptionError(f"the options are for {', '.join(strange)}, the programs are {', '.join(PROGRAMS)}")
    except OptionError as error:
        print(f"validation: {error}", file=sys.stderr)
        return 2
    if cluster.shared:
        os.environ["OMP_NUM_THREADS"] = "1"  # read when torch is loaded: more threads would only wait for each other
    ranks = Ranks(cluster)
    for number, name in enumerate(arguments.programs, 1):
        ranks.begin(number)
        faulthandler.dump_traceback_later(cluster.limit, exit=True)
        if found := _answer(name, ranks, given.get(name, {})):
            _tell(found, arguments.out)
    if ranks.met:
        ranks.met.close()
    return 0


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="validation", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("programs", metavar="PROGRAM", nargs="+", choices=PROGRAMS, help=", ".join(PROGRAMS))
    parser.add_argument("--options", metavar="FILE-OR-JSON", default="{}", help="an object: program name to options")
    parser.add_argument("--out", metavar="FOLDER", type=Path, help="write each result there, too")
    return parser.parse_args(argv)


def _answer(name: str, ranks: Ranks, options: Any) -> dict[str, Any] | None:
    """Return the result of one program, unless the first rank reports it. Errors are part of the result."""
    begun, clock = datetime.datetime.now(datetime.UTC), time.monotonic()
    answer = Answer(ranks.node)
    told: dict[str, Any] = options if isinstance(options, dict) else {}
    try:
        program = importlib.import_module(f".{name}", __package__)
        wanted = read(program.Options, options, name)
        told = asdict(wanted)
        program.run(ranks, wanted, answer)
    except Lost as error:  # measurements without the first rank still count
        answer.problem(str(error), node=error.node)
    except OptionError as error:
        _give_up(ranks, answer, str(error))
    except Exception as error:
        _give_up(ranks, answer, f"{type(error).__name__}: {error}")
    if answer.told:
        return None
    return {
        "version": result.VERSION,
        "workload": name,
        "rank": ranks.rank,
        "ranks": ranks.world,
        "nodes": ranks.names,
        "started": begun.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "seconds": round(time.monotonic() - clock, 3),
        "backend": answer.backend,
        "device": answer.device,
        "options": told,
        "environment": _environment() | answer.environment,
        "versions": {"python": platform.python_version(), "kernel": platform.release()} | answer.versions,
        **result.findings(answer),
    }


def _give_up(ranks: Ranks, answer: Answer, why: str) -> None:
    """Discard values: a measurement that broke may be half of something."""
    answer.values.clear()
    answer.problem(why)
    if ranks.met:
        ranks.met.leave(why)


def _environment() -> dict[str, str]:
    return {name: result.plain(value) for name, value in sorted(os.environ.items()) if name.startswith(TELLING)}


def _tell(found: dict[str, Any], folder: Path | None) -> None:
    for line in result.readable(found):
        print(line, file=sys.stderr)
    for line in result.lines(found):
        print(line)
    sys.stdout.flush()
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{found['workload']}.{found['rank']}.json"
        draft = path.with_suffix(".draft")
        draft.write_text(json.dumps(found, indent=1) + "\n")
        draft.replace(path)


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stderr.flush()
    os._exit(code)  # a thread may hang in a file system that does not answer
