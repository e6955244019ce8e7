"""`stampworks review`: effects of a change on a stack before the merge, without credentials."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import hashlib
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stampworks.cli import errors, exits, revisions, stacks
from stampworks.cli.named import Named, beside
from stampworks.text.amounts import counted
from stampworks.text.printable import printable

if TYPE_CHECKING:
    from stampworks.changes.review import Review, Sibling
    from stampworks.declaration import DeclarationSource
    from stampworks.planning import Facts
    from stampworks.planning.changes.review import ReviewedStack

FORMATS = ("markdown", "json")
EFFECTS = ("replace", "restart", "data", "cost", "unknown")
SIBLINGS_S = 20
"""Maximum seconds for the review of other stacks: enough for a thousand small ones."""


def add_verbs(verbs: Any) -> None:
    """Add the verb `review` and its options."""
    review = verbs.add_parser("review", help="show the effects of a change on a stack", allow_abbrev=False)
    for option, metavar, what in (("--base", "A", "before"), ("--head", "B", "after")):
        review.add_argument(
            option,
            metavar=metavar,
            required=True,
            action=_Once,
            help=f"the stack {what} the change: a git revision, a project's folder, a declaration, a plan's JSON file",
        )
    review.add_argument(
        "-s",
        "--stack",
        metavar="STACK",
        action=_Once,
        default=os.environ.get("STAMPWORKS_STACK") or stacks.DEFAULT_STACK,
        help=f"stack of a revision or a folder (default: $STAMPWORKS_STACK, else {stacks.DEFAULT_STACK})",
    )
    review.add_argument(
        "--fail-on",
        metavar="EFFECT",
        choices=EFFECTS,
        action="append",
        default=[],
        help=f"fail a change with this effect, too ({', '.join(EFFECTS)}); may be repeated",
    )
    review.add_argument("--format", metavar="FORMAT", choices=FORMATS, default="markdown", help="markdown or json")
    review.set_defaults(call=show_review)


class _Once(argparse.Action):
    """Option that may be given once: the review would silently skip a second stack."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, value: Any, *_: Any) -> None:
        given = vars(namespace).setdefault("given", set())
        if self.dest in given:
            parser.error(f"argument {'/'.join(self.option_strings)}: is there twice, and one run reviews one stack")
        given.add(self.dest)
        setattr(namespace, self.dest, value)


@dataclass(frozen=True)
class Opened:
    """A side of a review as named on the command line, and its files."""

    side: str
    """base or head."""
    name: str
    file: Path | None
    """A declaration, or a plan."""
    stacks: Path | None
    """Folder of stacks, unless the side is a single file."""
    written: Path | None = None
    """The folder into which a revision was written."""
    named: Named = field(default_factory=Named)
    unread: tuple[str, ...] = ()
    """Files in the roles of a revision that were not written."""


class SideError(Exception):
    """A side does not load."""

    def __init__(self, side: str, cause: Exception, name: str = "") -> None:
        super().__init__(str(cause))
        self.side, self.cause = side, cause
        self.problems = [{**each, "file": each["file"] or name} for each in errors.problems(cause)]


def show_review(arguments: argparse.Namespace) -> int:
    """Return the exit code: fine when nothing is refused and no additional rule fails. Unknown does not count as
    pass."""
    from stampworks.views.review import review_json, review_markdown, unreadable_json, unreadable_markdown

    try:
        with _opened("base", arguments.base) as base, _opened("head", arguments.head) as head:
            found = _review(arguments.stack, base, head)
    except SideError as error:
        unreadable = unreadable_json if arguments.format == "json" else unreadable_markdown
        print(unreadable(error.side, error.problems), end="")
        print(errors.text(error.cause), file=sys.stderr)
        return exits.code_of(error.cause) or exits.WRONG_INPUT
    print((review_json if arguments.format == "json" else review_markdown)(found), end="")
    if stops := [effect for effect in found.effects if effect in arguments.fail_on]:
        print(f"the change has an effect that --fail-on names: {', '.join(stops)}", file=sys.stderr)
        return exits.NO
    return exits.OF_VERDICT[found.verdict]


@contextlib.contextmanager
def _opened(side: str, name: str) -> Iterator[Opened]:
    """Return a path if one of that name exists, else a revision."""
    if name.startswith("-") or not name:
        error = exits.CliError(f"--{side} {name} is no revision and no file", "names do not begin with -")
        raise SideError(side, error, name)
    path = Path(name)
    there = _is_there(path)
    commit = revisions.revision(name, Path.cwd()) if not there or not _spelled_as_path(name) else None
    if there and commit:
        hint = f"write ./{name} for the path, or refs/heads/{name} for the branch"
        raise exits.CliError(f"--{side} {name} is both a path and a revision", hint)
    if there:
        yield _folder(side, name, path) if path.is_dir() else Opened(side, name, path, None)
    elif commit:
        with tempfile.TemporaryDirectory(prefix="stampworks-review-") as folder:
            into = Path(folder).resolve()
            opened = Opened(side, name, None, into, into)
            try:
                written = revisions.write_project(commit, stacks.project(), into, opened.named)
            except exits.CliError as error:
                raise _refused(opened, error) from None
            yield dataclasses.replace(opened, stacks=written.stacks, unread=written.unread)
    else:
        hint = "git rev-parse says more of it, and a shallow clone lacks much; paths begin in the working directory"
        what = f"--{side} {name} is neither a revision of this repository nor a file"
        raise SideError(side, exits.CliError(what, hint), name)


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a name that no file can have
        return False


def _spelled_as_path(name: str) -> bool:
    return name.startswith((".", "/")) or name.endswith((".yaml", ".yml", ".json"))


def _folder(side: str, name: str, path: Path) -> Opened:
    try:
        with contextlib.chdir(path):
            return Opened(side, name, None, stacks.folder())
    except exits.CliError as error:
        raise _refused(Opened(side, name, None, None), error) from None


def _review(stack: str, base: Opened, head: Opened) -> Review:
    from stampworks.planning.changes.review import review

    before, after = _side(base, stack), _side(head, stack)
    if not (before.plan or after.plan):
        what = f"there is no stack {printable(stack)}, neither at {base.name} nor at {head.name}"
        raise SideError("either side", exits.CliError(what, _stacks_hint(head)))
    follow, silent = _siblings(stack, base, head)
    plan = after.plan or before.plan
    name = stack if base.stacks or head.stacks or plan is None else plan.name
    return review(name, before, after, follow, silent)


def _stacks_hint(opened: Opened) -> str:
    names = _stack_names(opened)
    return f"there is {', '.join(map(printable, names))}" if names else "name one with -s"


def _side(opened: Opened, stack: str) -> ReviewedStack:
    from stampworks import planning
    from stampworks.state.facts import today

    side = _loaded(opened, stack)
    if not side.plan:
        return side
    return dataclasses.replace(side, findings=planning.rules(side.plan, _facts(opened, stack), today()))


def _facts(opened: Opened, stack: str) -> Facts:
    """Return the facts of the side: a revision has the facts of its time."""
    from stampworks.declaration import DeclarationError
    from stampworks.state.facts import known_facts

    declared = opened.file or _stack_file(opened.stacks or Path(), stack)
    try:
        return known_facts(None if declared.suffix == ".json" else declared)
    except DeclarationError as error:
        raise _located(opened, error) from None


def _loaded(opened: Opened, stack: str) -> ReviewedStack:
    """Load a side of the review, without the findings of rules."""
    from stampworks import planning
    from stampworks.declaration import DeclarationError, load_file, load_stack
    from stampworks.planning.changes.review import ReviewedStack

    folder = opened.stacks or Path()
    try:
        if opened.file and opened.file.suffix == ".json":
            return ReviewedStack(opened.name, stacks.plan_of(str(opened.file)))
        if opened.file:
            source, folder = load_file(opened.file), opened.file.parent
        elif os.path.isfile(_stack_file(folder, stack)):  # noqa: PTH113  # is_file() raises
            _stay_inside(opened, _stack_file(folder, stack))
            source = load_stack(stack, folder)
        else:
            return ReviewedStack(opened.name, None)
        plan = planning.plan(source)
        named = _named_files(source, folder)
        contents = {of: _digest(path) for of, path in named.items()}
        unread = _unread(opened, named.values())
        return ReviewedStack(opened.name, plan, (), contents, _written(source), unread)
    except DeclarationError as error:
        raise _located(opened, error) from None
    except exits.CliError as error:
        raise _refused(opened, error) from None


def _stack_file(folder: Path, stack: str) -> Path:
    return folder / f"Pulumi.{stack.rpartition('/')[2]}.yaml"


def _stack_names(opened: Opened) -> list[str]:
    files = opened.stacks.glob("Pulumi.*.yaml") if opened.stacks else ()
    return sorted(file.name.removeprefix("Pulumi.").removesuffix(".yaml") for file in files)


def _stay_inside(opened: Opened, file: Path) -> None:
    """Refuse files outside of a revision: they belong to the machine that reads it."""
    from stampworks.declaration import DeclarationError, Problem

    if opened.written is None:
        return
    if not file.is_relative_to(opened.written):
        raise DeclarationError([Problem(file.name, 0, 0, "", "lies outside of the repository", "", "")])
    for each in opened.named.chain(file, opened.written):
        for path, node in opened.named.by(each):
            if not beside(each, str(node.value)).is_relative_to(opened.written):
                message = f"{node.value} lies outside of the repository"
                raise DeclarationError([node.place.problem(path, message, "name a file of the repository")])


def _named_files(source: DeclarationSource, folder: Path) -> dict[tuple[str, str], Path]:
    """Return the paths of roles and checks that a declaration names."""
    from stampworks.declaration import check_name, role_name

    extras = source.declaration.extras
    named = [("roles", role_name(each.path), each.path) for each in extras.roles]
    named += [("checks", check_name(each.path), each.path) for each in extras.checks]
    return {(kind, name): Path(os.path.normpath(folder / path)) for kind, name, path in named}


def _written(source: DeclarationSource) -> frozenset[str]:
    from stampworks.declaration.fields import pattern
    from stampworks.declaration.nodes import walk

    return frozenset(pattern(path) for path, _ in walk(source.root))


def _digest(top: Path) -> str:
    """Return the digest of a file, or of all files of a folder with their names."""
    files = [top] if top.is_file() else sorted(each for each in top.rglob("*") if each.is_file())
    digest = hashlib.sha256()
    for file in files:
        content = file.read_bytes()
        digest.update(f"{file.relative_to(top)}\0{len(content)}\0".encode(errors="surrogateescape") + content)
    return digest.hexdigest()[:12]


def _siblings(stack: str, base: Opened, head: Opened) -> tuple[list[Sibling], list[str]]:
    """Review the other stacks whose files change. Return the changed ones, and sentences about stacks left open."""
    from stampworks.changes.review import Sibling
    from stampworks.planning.changes.review import review

    if not (base.stacks and head.stacks):
        return [], []
    names = sorted({*_stack_names(base), *_stack_names(head)} - {stack.rpartition("/")[2]})
    names = [name for name in names if not _is_the_same(name, base, head)]
    found, silent = [], []
    deadline = time.monotonic() + SIBLINGS_S
    for index, name in enumerate(names):
        if time.monotonic() > deadline:
            silent += [f"whether stack {each} changes as well: others took too long" for each in names[index:]]
            break
        try:
            before = _side(base, name)
        except SideError:  # the base is already invalid: the review of the change itself judges it
            silent.append(f"whether stack {name} changes as well: base of it does not load")
            continue
        try:
            one = review(name, before, _side(head, name))
        except SideError as error:
            found.append(Sibling(name, "fail", 0, 0, _first(error)))
            continue
        if one.changes:
            restarts = sum(nodes.count for nodes in one.restart)
            found.append(Sibling(name, one.verdict, len(one.changes), restarts))
    return found, silent


def _first(error: SideError) -> str:
    """Return the first problem, with its place, and the number of the others."""
    first, *others = error.problems
    place = ":".join(str(first[key]) for key in ("file", "line", "column") if first[key])
    text = f"{place}: {first['message']}" if place else str(first["message"])
    return f"{text}, and {counted(len(others), 'more problem')}" if others else text


def _unread(opened: Opened, named: Iterable[Path]) -> tuple[str, ...]:
    if opened.written is None:
        return ()
    tops = [path.relative_to(opened.written) for path in named]
    found = [each for each in opened.unread if any(Path(each).is_relative_to(top) for top in tops)]
    return tuple(each.encode(errors="backslashreplace").decode() for each in found)


def _files(opened: Opened, stack: str) -> list[Path]:
    assert opened.stacks  # noqa: S101  # a file has no siblings
    file = _stack_file(opened.stacks, stack)
    return opened.named.chain(file, opened.written or Path(file.anchor))


def _is_the_same(stack: str, base: Opened, head: Opened) -> bool:
    """Return whether both sides have equal files, so that no plan is needed. The stack has no own roles or checks."""
    before, after = _files(base, stack), _files(head, stack)
    alone = all(path == "extends" for each in before for path, _ in base.named.by(each))
    return alone and [each.read_bytes() for each in before] == [each.read_bytes() for each in after]


def _located(opened: Opened, error: Any) -> SideError:
    """The same problems at places of the revision, and not of the folder into which it was written."""
    from stampworks.declaration import DeclarationError

    problems = tuple(
        dataclasses.replace(
            each,
            file=f"--{opened.side} {_named(opened, each.file)}",
            message=_named(opened, each.message),
            hint=_named(opened, each.hint),
        )
        for each in error.problems
    )
    return SideError(opened.side, DeclarationError(problems))


def _refused(opened: Opened, error: exits.CliError) -> SideError:
    what, _, hint = _named(opened, str(error)).partition("\n  hint: ")
    return SideError(opened.side, exits.CliError(f"--{opened.side}: {what}", hint, error.code), opened.name)


def _named(opened: Opened, text: str) -> str:
    """Return a message about a temporary file as a message about its revision."""
    from stampworks.declaration import displayed

    if opened.written is None:
        return text
    for folder in (str(opened.written), displayed(opened.written)):
        text = text.replace(f"{folder}/", f"{opened.name}:").replace(folder, opened.name)
    return text
