"""Location of the playbooks, and digests that change with them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

IMAGE_PLAYBOOK = "image.yml"
PROGRAMS = ("validation", "training", "stampworks_train")
"""Folders of workloads/ that the nodes get."""
_IGNORED = {".git", "__pycache__"}


def playbooks_dir() -> Path:
    """Return the folder of the playbooks: next to components/ in a clone, inside the package in a wheel."""
    package = Path(__file__).resolve().parents[1]
    inside = package / "playbooks"
    return inside if inside.is_dir() else package.parents[1] / "playbooks"


def playbooks_digest() -> str:
    """Return a digest of everything that a playbook run reads, so that edited playbooks show as a change.

    The programs of the role workloads are beside the playbooks, in a clone and in a wheel.
    """
    root = playbooks_dir()
    programs = root.parent / "workloads"
    read = [*root.rglob("*"), *(path for name in PROGRAMS for path in (programs / name).rglob("*"))]
    files = (path for path in read if path.is_file() and path.suffix != ".md")
    return _digest(root.parent, (path for path in files if "__pycache__" not in path.parts))


def programs_digest() -> str:
    """Return a digest of the programs that measure a cluster. The results of other programs would be unknown."""
    root = playbooks_dir().parent / "workloads" / "validation"
    return _digest(root, root.rglob("*.py"))


def role_digest(role: Path) -> str:
    """Return a digest of all files in a folder of a user's role."""
    files = (path for path in role.rglob("*") if path.is_file())
    return _digest(role, (path for path in files if not _IGNORED & {*path.relative_to(role).parts}))


def install_digest() -> str:
    """Return a digest of the files that the install parts of the roles read, and of no others.

    Another digest means another image and new nodes. An edit of the configuration must not cause that.
    """
    root = playbooks_dir()
    return _digest(root, _installing(root))


def _installing(root: Path) -> Iterator[Path]:
    yield from (root / IMAGE_PLAYBOOK, root / "roles/image/tasks/main.yml")
    texts = []
    for install in root.glob("roles/*/tasks/install.yml"):
        role = install.parents[1]
        imported = re.findall(r"import_tasks: (\S+)", install.read_text())
        tasks = [install, *(install.with_name(name) for name in imported)]
        yield from tasks
        text = "".join(path.read_text() for path in tasks)
        texts.append(text)
        yield from role.glob("defaults/*.yml")
        yield from (path for path in (*role.glob("files/*"), *role.glob("templates/*")) if path.name in text)
    named = set(re.findall(r"stampworks\.node\.(\w+):", "".join(texts)))
    for path in root.glob("collections/ansible_collections/stampworks/node/plugins/*/*.py"):
        if path.stem in named or path.parent.name in ("module_utils", "plugin_utils"):
            yield path


def _digest(root: Path, files: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in sorted(files):
        digest.update(f"{path.relative_to(root)}\0{path.stat().st_size}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()
