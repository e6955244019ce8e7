"""The folder of a user's job, on a node that mounts it.

Standard library only: it is sent there unchanged.

    python3 -c THIS VERB FOLDER [...]

It runs with the user's rights. Only its user can read the folder: it has scripts, variables, secrets and copied files.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import secrets
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

SECRETS, WORKDIR, MANIFEST, LOG, EXIT, NUMBER = "secrets.sh", "workdir", "workdir.json", "log", "exit", "number"
CLAIM, TURN = "claim", "turn"
"""An active submission, and a name for the last one that began."""
KEPT_S = 14 * 24 * 3600
"""Contents that no job has used for so long are deleted."""
_POLL_S = 5.0
_SUBMITTED_S = 600
"""A job has its number within this time after its files were written, or was never submitted."""


def look(folder: Path, image: str) -> dict[str, Any]:
    """Check that a folder is free or the user's own, and that an image is a root file system."""
    wrong = ""
    if image:
        path = Path(image)
        if not path.exists():
            wrong = "does not exist"
        elif path.is_dir() and not (path / "bin/bash").exists():
            wrong = "is not a root file system: it has no /bin/bash"
        elif not os.access(path, os.R_OK):
            wrong = "cannot be read"
    mine = not folder.exists() or (not folder.is_symlink() and folder.stat().st_uid == os.geteuid())
    return {"mine": mine, "image": wrong, "turn": said(folder / TURN) if mine else ""}


def said(path: Path) -> str:
    """Return the text of a file; empty if it does not exist."""
    try:
        return path.read_text()
    except FileNotFoundError:
        return ""


def claim(folder: Path, seen: str) -> str:
    """Begin a submission: return a reason if another command has begun one since the last look at the folder.

    A submission that has neither ended nor failed after a while was broken off, and the next command takes its place.
    """
    path, own = folder / CLAIM, secrets.token_hex(8)
    while True:
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        except FileExistsError:
            try:
                age = time.time() - path.lstat().st_mtime
                if age < _SUBMITTED_S:
                    return f"another command has been submitting it for {age:.0f} s"
                # the rename is atomic: only one of several concurrent commands succeeds
                path.rename(folder / f".{CLAIM}.{own}")
            except FileNotFoundError:
                continue
            (folder / f".{CLAIM}.{own}").unlink()
            continue
        break
    os.close(descriptor)
    if said(folder / TURN) != seen:
        path.unlink()
        return "another command has submitted it meanwhile"
    whole(folder / TURN, own.encode(), 0o600)
    return ""


def missing(objects: Path, digests: list[str]) -> dict[str, Any]:
    """Return the contents that are not here yet."""
    private(objects)
    found = [digest for digest in digests if not (objects / digest).is_file()]
    for digest in set(digests) - set(found):
        os.utime(objects / digest)
    limit = time.time() - KEPT_S
    for entry in os.scandir(objects):
        if entry.stat(follow_symlinks=False).st_mtime < limit:
            Path(entry.path).unlink()
    return {"missing": found}


def put(objects: Path, pieces: list[tuple[str, int, int, str]]) -> dict[str, Any]:
    """Keep contents under their digests, each whole or not at all. A piece is of a digest and has its place and the
    size of the whole."""
    private(objects)
    for digest, offset, size, text in pieces:
        draft = objects / f".{digest}.draft"
        content = base64.b64decode(text)
        with draft.open("r+b" if offset else "wb") as file:
            file.seek(offset)
            file.write(content)
        if offset + len(content) == size:
            if _digest_of(draft) != digest:
                sys.exit("a file was changed on its way")
            draft.replace(objects / digest)
    return {}


def _digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def place(folder: Path, objects: Path, given: dict[str, Any]) -> dict[str, Any]:
    """Write all files of a job. Files of the last copy that are no longer in the workdir are removed; others stay."""
    private(folder)
    if busy := claim(folder, given["turn"]):
        return {"busy": busy}
    sweep(folder.parent)
    tasks = [path.name for path in folder.glob(f"{EXIT}-*")]  # each task of an array has an exit code
    for name in (LOG, EXIT, SECRETS, NUMBER, *tasks):
        (folder / name).unlink(missing_ok=True)
    for name, text in given["files"].items():
        whole(folder / name, text.encode(), 0o600)
    if given["secrets"]:
        whole(folder / SECRETS, given["secrets"].encode(), 0o600)
    if given["manifest"] is not None:
        try:
            copied(folder, objects, given["manifest"])
        except BaseException:
            forget(folder)
            raise
    return {}


def copied(folder: Path, objects: Path, manifest: list[list[str]]) -> None:
    """Bring the working folder to the manifest: remove files of the last one, and copy changed ones."""
    workdir = folder / WORKDIR
    workdir.mkdir(exist_ok=True)
    try:
        before = {entry[0]: entry for entry in json.loads((folder / MANIFEST).read_text())}
    except (OSError, ValueError):
        before = {}
    for name in before.keys() - {entry[0] for entry in manifest}:
        removed(workdir, name)
    for entry in manifest:
        name, kind, value = entry
        path = workdir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir() and not path.is_symlink():
            sys.exit(f"{path} is a folder with files of the job, and a file in what was submitted: move it away")
        if kind == "link":
            path.unlink(missing_ok=True)
            path.symlink_to(value)
        elif before.get(name) != entry or not same(path, value):
            draft = path.parent / f".{path.name[:200]}.draft"
            draft.unlink(missing_ok=True)
            shutil.copyfile(objects / value, draft)
            draft.chmod(int(kind, 8))
            draft.replace(path)
    whole(folder / MANIFEST, json.dumps(manifest).encode(), 0o600)


def removed(workdir: Path, name: str) -> None:
    """Remove a copied file, and folders that are then empty. Files of the job stay."""
    path = workdir / name
    if path.is_dir() and not path.is_symlink():
        return
    path.unlink(missing_ok=True)
    for folder in path.parents:
        if folder == workdir or not folder.is_dir() or [*folder.iterdir()]:
            return
        folder.rmdir()


def same(path: Path, digest: str) -> bool:
    """Whether a file still has the content that was copied: a job may have changed it."""
    try:
        return not path.is_symlink() and _digest_of(path) == digest
    except OSError:
        return False


def private(folder: Path) -> None:
    """Make a folder that only its owner can enter, or check an existing one."""
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        sys.exit(f"{folder} belongs to another user")
    folder.chmod(0o700)


def whole(path: Path, content: bytes, mode: int) -> None:
    """Write a file in one rename, so that readers never see a part of it."""
    draft = path.parent / f".{path.name[:200]}.draft"
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        os.fchmod(descriptor, mode)
    draft.replace(path)


def gone(*which: str) -> bool:
    """Whether Slurm says that a job has left the queue; a job that waits for another attempt has not."""
    done = subprocess.run(["squeue", "--noheader", *which, "--format=%T"], capture_output=True, text=True, check=False)
    return "Invalid job id" in done.stderr if done.returncode else not done.stdout.strip()


def sweep(runs: Path) -> None:
    """Remove the secrets of the user's jobs that have ended while nothing watched them, or never got a number."""
    for file in runs.glob(f"*/{SECRETS}"):
        try:
            if file.stat().st_uid == os.geteuid() and _left_over(file):
                file.unlink(missing_ok=True)
        except OSError:
            continue


def _left_over(file: Path) -> bool:
    """Return whether no job needs the secrets. A job without a known number is found by name."""
    number = file.parent / NUMBER
    if number.exists():
        return gone(f"--jobs={number.read_text().strip()}")
    late = time.time() - file.stat().st_mtime > _SUBMITTED_S
    return late and gone("--me", f"--name={file.parent.name.partition('.')[0]}")


def watch(folder: Path, number: str) -> dict[str, Any]:
    """Remember a job's number, and remove its secrets when it has left the queue, however it ends."""
    whole(folder / NUMBER, number.encode(), 0o600)
    (folder / CLAIM).unlink(missing_ok=True)
    if not (folder / SECRETS).exists():
        return {}
    sys.stdout.flush()
    if os.fork():
        return {}
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(nothing, descriptor)
    while (folder / SECRETS).exists() and (folder / NUMBER).read_text() == number:
        if gone(f"--jobs={number}"):
            (folder / SECRETS).unlink(missing_ok=True)
        time.sleep(_POLL_S)
    os._exit(0)


def forget(folder: Path) -> dict[str, Any]:
    """Remove the files of a job that was never accepted."""
    (folder / SECRETS).unlink(missing_ok=True)
    (folder / CLAIM).unlink(missing_ok=True)
    return {}


def main(verb: str, folder: Path, *more: str) -> dict[str, Any]:
    """Run the verb and return the answer."""
    if verb == "look":
        return look(folder, more[0])
    if verb == "watch":
        return watch(folder, more[0])
    if verb == "forget":
        return forget(folder)
    given = json.load(sys.stdin)
    if verb == "missing":
        return missing(folder, given)
    return put(folder, given) if verb == "put" else place(folder, Path(more[0]), given)


if __name__ == "__main__":
    os.umask(0o077)
    try:
        print(json.dumps(main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])))
    except OSError as error:
        sys.exit(f"{error.filename}: {error.strerror}")
