"""The program that runs on a host: keep, differences, give-back. Each verb prints JSON."""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

from stampworks.clouds.hosts.keeping import back, found, mounts
from stampworks.clouds.hosts.keeping.tree import Tree

DONE, LEFT = 0, 1


def main(arguments: Sequence[str]) -> int:
    """Run a verb, and return the exit code: 0 done, 1 something is left to do or refused, 2 wrong arguments."""
    parser = argparse.ArgumentParser(prog="keeper")
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("keep")
    verbs.add_parser("differences")
    giving = verbs.add_parser("give-back")
    giving.add_argument("--keep-packages", action="store_true")
    giving.add_argument("--protect", metavar="PATH", action="append", default=[])
    options = parser.parse_args(arguments)
    if any(not path.startswith("/") for path in getattr(options, "protect", [])):
        parser.error("--protect takes an absolute path")
    if os.geteuid() != 0:
        print("keeper: only root can do this", file=sys.stderr)
        return LEFT
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the connection may break
    lock = os.open("/var/lib", os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        answer = _answer(options)
    except BlockingIOError:
        print("keeper: another run works on this host: wait for its end, and try again", file=sys.stderr)
        return LEFT
    except found.RefusedError as error:
        print(f"keeper: {error}", file=sys.stderr)
        return LEFT
    except OSError as error:
        print(f"keeper: {error.filename or options.verb}: {error.strerror}", file=sys.stderr)
        return LEFT
    print(json.dumps(answer))
    return LEFT if answer.get("failed") else DONE


def _answer(options: argparse.Namespace) -> dict[str, Any]:
    if options.verb == "give-back":
        return back.give_back(options.protect, options.keep_packages)
    tree = Tree("/", mounts.mounts())
    if options.verb == "keep":
        return {"new": found.keep(tree)}
    before = found.read(tree)
    if before is None:
        raise found.RefusedError("nothing was written down on this host: there is nothing to compare with")
    return found.differences(tree, before, found.read_ours(tree))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
