"""What several modules do on a node: run a command, write a file, say what went wrong. Standard library only."""

from __future__ import annotations

import errno
import grp
import os
import pwd
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any


class Refused(Exception):  # noqa: N818 (reads as what happened)
    """The node cannot be brought where the task wants it; the text says what is wrong and what to do."""


def answering(work: Callable[..., dict[str, Any]]) -> Callable[[Mapping[str, Any], bool], dict[str, Any]]:
    """Turns a module's work into what Ansible expects of a module: a result, also when it fails.

    What a module finds different from what its task says, it says in words under `drift`. In check mode a refusal is
    one more of them: what cannot be seen here must not keep the rest of the node from being looked at.
    """

    def answer(arguments: Mapping[str, Any], check: bool) -> dict[str, Any]:
        try:
            return {"changed": False, **work(check=check, **arguments)}
        except (Refused, OSError) as error:
            if check:
                return {"changed": True, "drift": [f"unknown: {error}"]}
            return {"changed": False, "failed": True, "msg": str(error)}

    return answer


def run(
    argv: Sequence[str], timeout: float = 60, check: bool = True, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs a command to its end; what it said is in the error when it fails."""
    try:
        done = subprocess.run(
            list(argv),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
            stdin=subprocess.DEVNULL,
            env=None if env is None else {**os.environ, **env},
        )
    except FileNotFoundError:
        raise Refused(f"{argv[0]}: not installed on this node: was its image built by the same release?") from None
    except subprocess.TimeoutExpired:
        raise Refused(f"{' '.join(argv)}: no answer within {timeout:g} s") from None
    if check and done.returncode:
        said = (done.stderr.strip() or done.stdout.strip()) or "no message"
        raise Refused(f"{' '.join(argv)}: exit code {done.returncode}: {said}")
    return done


def write(path: Path, content: bytes, mode: int = 0o644, uid: int = 0, gid: int = 0) -> None:
    """Puts a file in place whole: nobody ever reads half of it, or reads a secret before its mode is set."""
    try:
        _write(path, content, mode, uid, gid)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        hint = f"make room on this node's disk (df -h {path.parent}; df -i {path.parent})"
        raise Refused(f"{path}: {error.strerror}: {hint}") from error


def _write(path: Path, content: bytes, mode: int, uid: int, gid: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            os.fchmod(file.fileno(), mode)
            if (os.geteuid(), os.getegid()) != (uid, gid):
                os.fchown(file.fileno(), uid, gid)
            file.write(content)
        temporary.rename(path)
    except BaseException:
        temporary.unlink()
        raise


def user_id(name: str) -> int:
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        raise Refused(f"no user is called {name!r} on this node") from None


def group_id(name: str) -> int:
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        raise Refused(f"no group is called {name!r} on this node") from None
