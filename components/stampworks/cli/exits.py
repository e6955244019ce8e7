"""Meaning of each exit code, and the errors that end with it.

Errors are named by text, so that a verb that needs none of these rooms does not import them.
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import NoReturn

FINE = 0
NO = 1
"""The answer is no."""
WRONG_INPUT = 2
UNKNOWN = 3
"""Could not tell."""
FAILED = 4
"""The infrastructure failed."""
BROKEN_PIPE = 141
INTERRUPTED = 130

OF_STATE = {"finished": FINE, "unknown": UNKNOWN}
"""Exit codes by the state of a job; NO for all others."""
OF_VERDICT = {"pass": FINE, "fail": NO, "unknown": UNKNOWN}
CODES = {
    "stampworks.cli.exits.CliError": WRONG_INPUT,
    "stampworks.declaration.errors.DeclarationError": WRONG_INPUT,
    "stampworks.physics.estimates.ConflictError": WRONG_INPUT,
    "stampworks.planning.fat_tree.cabling.DumpError": WRONG_INPUT,
    "stampworks.planning.fat_tree.tree.FabricError": WRONG_INPUT,
    "stampworks.qualification.thresholds.ThresholdsError": WRONG_INPUT,
    "stampworks.operations.drain.BusyError": NO,
    "stampworks.operations.drain.HeldError": NO,
    "stampworks.operations.jobs.UsedError": NO,
    "stampworks.operations.kubernetes.client.NotRunningError": NO,
    "stampworks.operations.run.TooFewNodesError": NO,
    "stampworks.operations.errors.InputError": WRONG_INPUT,
    "stampworks.operations.errors.UnknownError": UNKNOWN,
    "stampworks.operations.errors.OperationError": FAILED,
    "stampworks.rehearsal.engine.EngineError": FAILED,
    "stampworks.machine_room.errors.RoomError": FAILED,
    "stampworks.clouds.errors.CloudError": UNKNOWN,
    "stampworks.configuration.run.PlaybookFailed": FAILED,
}


class CliError(Exception):
    """Invalid arguments, or a wrong folder to run in."""

    def __init__(self, what: str, hint: str, code: int = WRONG_INPUT) -> None:
        super().__init__(f"{what}\n  hint: {hint}")
        self.code = code


def terminated(number: int, _: FrameType | None) -> NoReturn:
    """Handle a signal as Ctrl-C, so that unfinished work is undone."""
    sys.exit(128 + number)


def code_of(error: Exception) -> int | None:
    """Exit code of an error that is an answer; None for a bug of the toolkit."""
    if isinstance(error, CliError):
        return error.code
    for kind in type(error).__mro__:
        if (code := CODES.get(f"{kind.__module__}.{kind.__qualname__}")) is not None:
            return code
    return FAILED if isinstance(error, OSError) else None
