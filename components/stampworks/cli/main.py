"""The `stampworks` command: find the verb, call it, and turn errors into exit codes."""

from __future__ import annotations

import argparse
import difflib
import gc
import importlib
import itertools
import os
import re
import sys
import traceback
from collections.abc import Iterable, Sequence
from typing import NoReturn

from stampworks.cli import errors, exits
from stampworks.text.printable import printable
from stampworks.text.version import VERSION

COLLECTED_AFTER = 200_000
"""Number of objects that a command creates before Python searches for dead cycles. Imports and parsed files create many
and leave none: Python's default of 700 takes a tenth of the time of a plan."""
NO_PLUGINS = ("PYDANTIC_DISABLE_PLUGINS", "__all__")
"""Setting that stops pydantic from searching all installed packages for plugins."""
VERBS = {
    "plan": "declared",
    "schema": "declared",
    "explain": "explain",
    "topology": "topology",
    "addons": "addons",
    "new": "new",
    "compare": "compare",
    "review": "review",
    "estimate": "estimate",
    "fabric": "fabric",
    "rehearse": "rehearse",
    "lock": "lock",
    "facts": "facts",
    "hosts": "hosts",
    "image": "image",
    "status": "status",
    "ssh": "reach",
    "run": "reach",
    "kubectl": "reach",
    "login": "login",
    "lint": "workload",
    "submit": "submit",
    "jobs": "jobs",
    "logs": "jobs",
    "cancel": "jobs",
    "drain": "drain",
    "return": "drain",
    "roll": "roll",
    "qualify": "qualify",
    "verify": "qualify",
    "report": "report",
    "fault": "fault",
    "sweep": "sweep",
    "audit-thresholds": "audit",
}
"""The module of each, in the order of `--help`: a command loads no other's."""
EPILOG = """\
exit codes: 0 fine, 1 the answer is no, 2 the input is wrong, 3 could not tell, 4 the infrastructure failed;
`run` and `ssh` pass their command's exit code through.
`pulumi up`, `preview`, `refresh` and `destroy` make, change and remove clusters."""
FAULT = "This is a bug in stampworks: the command has no result."


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors suggest the nearest verb or option."""

    def error(self, message: str) -> NoReturn:
        """Raise CliError instead of ending the process, as argparse does."""
        raise exits.CliError(f"{self.prog}: {printable(message)}", self._hint(message))

    def _hint(self, message: str) -> str:
        unknown = re.search(r"(?:invalid choice: '|unrecognized arguments: )([^'\s]+)", message)
        _, _, among = message.partition("(choose from ")
        words = {*re.findall(r"'([^']+)'", among)} or self._words()
        close = difflib.get_close_matches(unknown[1], words, n=1) if unknown else []
        more = f"`{self.prog} --help` says more"
        return f"did you mean {close[0]}? {more}" if close else more

    def _words(self) -> set[str]:
        """Every verb and option, those of the verbs too: argparse reports unknown options at the top."""
        words = {option for action in self._actions for option in action.option_strings}
        for action in self._actions:
            if isinstance(action.choices, dict):
                words |= {*action.choices, *(word for verb in action.choices.values() for word in verb._words())}
            elif action.choices:
                words |= {str(choice) for choice in action.choices}
        return words


def parser(verb: str = "") -> argparse.ArgumentParser:
    """Return the parser of all verbs, or of a verb and its module's others; tests compare docs/reference with it."""
    top = Parser(
        prog="stampworks",
        description="Declare a GPU training cluster once, stamp it out on any cloud, prove it.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    top.add_argument("--version", action="version", version=f"stampworks {VERSION}", help="show the version and exit")
    verbs = top.add_subparsers(dest="verb", metavar="VERB", required=True, parser_class=Parser)
    for module in _modules(verb):
        importlib.import_module(f"stampworks.cli.{module}").add_verbs(verbs)
    return top


def _modules(verb: str) -> Iterable[str]:
    """Return the modules that a command line needs; `stampworks --version` needs none."""
    if verb == "--version":
        return ()
    return [VERBS[verb]] if verb in VERBS else dict.fromkeys(VERBS.values())


def command() -> int:
    """Run the command of this process, and spare Python the work that a short life does not need."""
    gc.set_threshold(COLLECTED_AFTER)
    os.environ.setdefault(*NO_PLUGINS)
    try:
        return main()
    finally:
        gc.freeze()  # prevent a last search for reference cycles at exit


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Expected errors go to stderr with an exit code, as JSON if the user asked for it."""
    words = list(sys.argv[1:] if argv is None else argv)
    # Words after -- belong to the command that `run` and `ssh` start.
    split = words.index("--") if "--" in words else len(words)
    try:
        code = _call(words, split)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return exits.INTERRUPTED
    except BrokenPipeError:
        # The reader has left: the buffered output must not raise again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return exits.BROKEN_PIPE
    except Exception as error:
        return _explained(error, _wants_json(words[:split]))
    return code


def _call(words: list[str], split: int) -> int:
    verb = words[0] if words else ""
    arguments = parser(verb).parse_args(words[:split])
    if getattr(arguments, "takes_command", False):
        # inside a command that begins before it, -- is an ordinary word
        begun = getattr(arguments, "command", [])
        arguments.command = [*begun, *words[split if begun else split + 1 :]]
    elif split < len(words):
        raise exits.CliError(f"{arguments.verb} runs no command", "leave out -- and what follows")
    return int(arguments.call(arguments))


def _wants_json(words: Sequence[str]) -> bool:
    """Return whether the command line asks for JSON, even if the parser refuses it."""
    return "--json" in words or "--format=json" in words or ("--format", "json") in itertools.pairwise(words)


def _explained(error: Exception, as_json: bool) -> int:
    code = exits.code_of(error)
    if code is None:
        traceback.print_exc()
        code, error = exits.UNKNOWN, RuntimeError(FAULT)
    if as_json:
        print(errors.as_json(error))
    print(errors.text(error), file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(command())
