"""python -m tools.scaffold in a copy of the tree: valid files, tests that say what to write, and no partial results."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools.scaffold.__main__ import main
from tools.scaffold.files import File, write

ROOT = Path(__file__).parents[2]
TESTS = ("tests/playbooks", "tests/qualification", "tests/catalog", "tests/clouds")
COPIED = ("components/stampworks", "playbooks", "workloads/validation", *TESTS, "pyproject.toml", ".yamllint")
LONG = "a_long_name_for_what_is_measured"
CASES = {
    "role": ["role", LONG],
    "check": ["check", LONG],
    "cloud": ["cloud", "a-cloud-with-a-rather-long-name1"],
    "machine": ["machine", "gpu-x9-sxm_8gpu.long", "--cloud", "nebius", "--accelerator", "h100", "--accelerators", "8"],
}
SAYS = {
    "role": [
        "add a row of NAME to components/stampworks/catalog/roles.py",
        "add a play with hosts: NAME to playbooks/site.yml",
        "write playbooks/roles/NAME/tasks/configure.yml, then",
    ],
    "check": [
        "add NAME to PROGRAMS of workloads/validation/__main__.py",
        "add a Step with NAME.measured to components/stampworks/qualification/levels.py",
        "write run of workloads/validation/NAME.py and measured of components/stampworks/qualification/NAME.py",
    ],
    "cloud": [
        "add 'NAME' to Cloud in components/stampworks/catalog/hardware.py",
        "add a machine: python -m tools.scaffold machine MACHINE --cloud NAME",
        "add 'NAME' to _OWN in components/stampworks/planning/clouds/__init__.py",
        "write components/stampworks/clouds/a_cloud_with_a_rather_long_name1/place.py, as docs/contributing/",
    ],
    "machine": [
        "write source and read in components/stampworks/catalog/machines/nebius.yaml",
        "look these up and write them in components/stampworks/catalog/machines/nebius.yaml, or in NO_SOURCE_FOR: "
        "billing_unit, cores, fabric_reduces",
    ],
}
each_kind = pytest.mark.parametrize("kind", CASES)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The parts of this tree that a new thing is written into."""
    folder = tmp_path_factory.mktemp("copy")
    ignored = shutil.ignore_patterns("__pycache__", "golden", "recorded")
    for name in COPIED:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, folder / name)
    return folder


@pytest.fixture
def tree(copy: Path, tmp_path: Path) -> Path:
    """Yield the same tree for a test that writes."""
    return Path(shutil.copytree(copy, tmp_path / "tree"))


def contents(tree: Path) -> dict[str, bytes]:
    return {str(path.relative_to(tree)): path.read_bytes() for path in tree.rglob("*") if path.is_file()}


@each_kind
def test_written_files_pass_lint(kind: str, tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Python and YAML files are checked and formatted; next steps are printed, and nothing else changes."""
    before = contents(tree)
    assert main(CASES[kind], tree) == 0
    changed = [path for path, content in contents(tree).items() if before.get(path) != content]
    said = capsys.readouterr().out
    assert all(path in said.partition("next:")[0] for path in changed)
    assert said.partition("next:")[2].strip().startswith("1. ")
    for command in (["ruff", "check"], ["ruff", "format", "--check"]):
        python = [path for path in changed if path.endswith(".py")]
        done = subprocess.run([*command, *python], cwd=tree, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout
    if found := [path for path in changed if path.endswith((".yml", ".yaml"))]:
        done = subprocess.run(["yamllint", "--strict", *found], cwd=tree, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout


@each_kind
def test_its_test_fails_and_says_what_to_write(kind: str, tree: Path) -> None:
    """Every step that is left is the reason of a failure."""
    before = contents(tree)
    main(CASES[kind], tree)
    [test] = [path for path in contents(tree) if path not in before and path.startswith("tests/")]
    environment = {"PYTHONPATH": f"{tree}/components:{tree}:{tree}/workloads", "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-m", "pytest", "-q", "--noconftest", "-p", "no:cacheprovider", "-n", "0", test]
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "passed" not in done.stdout.splitlines()[-1], done.stdout
    for line in SAYS[kind]:
        assert line.replace("NAME", CASES[kind][1]) in done.stdout, done.stdout


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("role storage", "there is a role 'storage' already: playbooks/roles/storage"),
        ("role head", "'head' is a group or host of every inventory: use another name for the role"),
        ("role Motd", "'Motd' is not a legal name of a role: use 1 to 32 small letters, digits and '_'"),
        ("role ../x", "'../x' is not a legal name of a role"),
        ("check fabric", "there is something of the name 'fabric' already: workloads/validation/fabric.py"),
        ("check class", "'class' is a word of Python's own: use another name for the check"),
        ("cloud aws", "there is something of the name 'aws' already"),
        ("cloud a_b", "'a_b' is not a legal name of a cloud: use 2 to 32 small letters, digits and '-'"),
        ("machine p5 --cloud aws", "there is a machine 'p5' already: aws.yaml"),
        ("machine p5.48xlarge --cloud aws", "there is a machine 'p5.48xlarge' already: aws.yaml"),
        ("machine x9 --cloud nowhere", "no cloud is called 'nowhere': add it with python -m tools.scaffold cloud"),
        ("machine x9 --cloud aws --accelerator h1", "no accelerator is called 'h1': it is one of "),
        ("machine x9 --cloud aws --accelerator h100", "--accelerator and --accelerators go together"),
    ],
)
def test_a_name_that_cannot_be_is_refused(
    words: str, reason: str, copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The reason is printed, and nothing is written."""
    before = contents(copy)
    assert main(words.split(), copy) == 1
    assert f"scaffold: {reason}" in capsys.readouterr().err
    assert contents(copy) == before


def test_an_error_leaves_nothing_behind(tmp_path: Path) -> None:
    """Files written before the error go, folders too, and an extended file has its old end."""
    (tmp_path / "rows.yaml").write_text("a: 1\n")
    (tmp_path / "in_the_way").write_text("")
    files = [File("new/deep/one.py", "x"), File("rows.yaml", "b: 2\n", extends=True), File("in_the_way/two.py", "x")]
    with pytest.raises(OSError, match="in_the_way"):
        write(tmp_path, files)
    assert contents(tmp_path) == {"rows.yaml": b"a: 1\n", "in_the_way": b""}
    assert not (tmp_path / "new").exists()
