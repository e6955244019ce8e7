"""Set-up: messages about missing parts, and unchanged existing ones."""

from __future__ import annotations

import json
import os
import pwd
import re
import shutil
import stat
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
from stampworks import catalog
from stampworks.machine_room import commands, privileges
from stampworks.machine_room.kubernetes import addons
from stampworks.text.version import VERSION

from tools.prepare import ROOT, engine, golang, kubernetes, plugin, published, python_packages, shared, system, training
from tools.prepare.__main__ import prepare
from tools.prepare.progress import Step, StepError, step

WITHOUT_GO = """\
go is not on PATH. It builds the Pulumi engine, once. Install it with
    sudo apt-get install -y golang-go      (Debian 12: add '-t bookworm-backports')
or put a pulumi of version 3.250.0 or later on PATH, which is then used instead.
Without it these still work: make lint, and after '. tools/env.sh' stampworks plan and
pytest -m 'not engine and not cluster'."""

WITHOUT_PROGRAMS = """\
not found: ip, tc, mmdebstrap.
They build and run the nodes of a local cluster. Install them with
    sudo apt-get install -y iproute2 mmdebstrap
Without them these still work: make lint, and after '. tools/env.sh' stampworks plan and
pytest -m 'not cluster'."""

FAKE_GO = """\
import re, sys
from pathlib import Path
folder, (verb, *words) = Path(sys.argv[1]), sys.argv[2:]
with (folder / "calls").open("a") as calls:
    print(verb, file=calls)
if verb == "version":
    print("go1.26.8")
elif words[0] == "-m":
    print(folder / "modules")
elif verb == "build":
    target = Path(words[words.index("-o") + 1])
    target.mkdir(exist_ok=True)
    for package in words[words.index("-o") + 2:]:
        (target / re.sub(r"/v[0-9]+$", "", package).rpartition("/")[2]).touch()
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The files that set-up reads, elsewhere."""
    root = tmp_path / "clone"
    for name in ("engine", "plugin", *kubernetes.BUILT):
        shutil.copytree(ROOT / "tools" / name, root / "tools" / name)
    for name in (*python_packages.INSTALLED, training.LOCK):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, root / name)
    return root


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of stand-in programs as the only PATH, for a user who is not root."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setitem(commands.ENVIRONMENT, "PATH", str(folder))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    return folder


def provide(folder: Path, name: str, script: str = "") -> Path:
    """Put a stand-in program into a folder."""
    program = folder / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


def quiet() -> Step:
    return Step("nothing is shown")


def test_all_that_is_missing_is_said_at_once(clone: Path, programs: Path, tmp_path: Path) -> None:
    """A run names every missing program with its command, and carries out the other steps."""
    for name, _ in commands.HOST_PROGRAMS:
        if name not in ("ip", "tc", "mmdebstrap"):
            provide(programs, name)
    provide(programs, "uv")
    (clone / ".venv" / "bin").mkdir(parents=True)
    (clone / ".venv" / "bin" / "python").touch()

    problems = prepare(clone, tmp_path, everything=True, with_image=True)

    assert problems == [WITHOUT_PROGRAMS, WITHOUT_GO]
    assert (clone / ".venv" / "prepared").exists()


def test_all_that_forbids_namespaces_is_said_at_once(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message lists every command for root at once, with the text of the machine room."""
    provide(programs, "unshare", "echo unshare: no line matching user >&2; exit 1")
    files = {"/etc/subuid": [], "/proc/sys/kernel/unprivileged_userns_clone": ["0"]}
    monkeypatch.setattr(privileges, "_lines", lambda path: files.get(path, []))
    monkeypatch.setattr(pwd, "getpwuid", lambda _: SimpleNamespace(pw_name="alice"))
    with pytest.raises(StepError) as raised:
        system.ensure_namespaces()
    assert str(raised.value) == (
        "this user cannot have namespaces, and local nodes are made of them: unshare: no line matching user\n"
        "    an ordinary user needs newuidmap; as root: apt-get install uidmap\n"
        "    an ordinary user needs newgidmap; as root: apt-get install uidmap\n"
        "    alice has no subordinate ids in /etc/subuid; as root: usermod --add-subuids 100000-165535 alice\n"
        "    alice has no subordinate ids in /etc/subgid; as root: usermod --add-subgids 100000-165535 alice\n"
        "    this host forbids user namespaces: kernel.unprivileged_userns_clone is 0; "
        "as root: sysctl kernel.unprivileged_userns_clone=1\n"
        "Without them these still work: make lint, and after '. tools/env.sh' stampworks plan and\n"
        "pytest -m 'not cluster'."
    )


def test_root_is_not_told_to_use_sudo(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(StepError, match=r"\n    apt-get install -y golang-go "):
        golang.program("it", "or not")


def test_root_gets_missing_programs_installed(
    programs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    for name, _ in commands.HOST_PROGRAMS:
        provide(programs, name)
    (programs / "tc").unlink()
    provide(programs, "apt-get", f'echo "$@" >>{programs}/called')

    with step("system programs") as shown:
        system.ensure_programs(shown)

    assert (
        programs / "called"
    ).read_text() == "update -q\ninstall -o DPkg::Lock::Timeout=300 -q -y --no-install-recommends iproute2\n"
    assert capsys.readouterr().out == "system programs   ready, installed iproute2\n"


def test_programs_of_long_tests_are_installed_or_asked_for(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root installs them; other users get the command, and a list of unaffected parts."""
    firmware = programs / "firmware.fd"
    needed = (("runc", "runc", "to start it"), ("mcopy", "mtools", "to make disks"), (f"{firmware}", "ovmf", "to boot"))
    monkeypatch.setattr(system, "OF_LONG_TESTS", needed)
    provide(programs, "runc")
    with pytest.raises(StepError) as raised:
        system.ensure_programs_of_long_tests(quiet())
    assert str(raised.value) == (
        "not found, and each is needed by a long test:\n"
        "    mcopy, to make disks\n"
        f"    {firmware}, to boot\n"
        "Install them with\n"
        "    sudo apt-get install -y mtools ovmf\n"
        "Without them make test works, and every other long test."
    )
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    provide(programs, "apt-get", f'echo "$@" >>{programs}/called')
    system.ensure_programs_of_long_tests(quiet())
    assert (
        programs / "called"
    ).read_text() == "update -q\ninstall -o DPkg::Lock::Timeout=300 -q -y --no-install-recommends mtools ovmf\n"
    provide(programs, "mcopy")
    firmware.touch()
    system.ensure_programs_of_long_tests(quiet())
    assert len((programs / "called").read_text().splitlines()) == 2


def test_an_old_go_is_refused_by_its_version(programs: Path) -> None:
    go = provide(programs, "go", "echo go version go1.19.8 linux/amd64")
    with pytest.raises(StepError, match=re.escape(f"go of version 1.21 or later is needed, and {go} says 'go version")):
        golang.program("it", "or not")


def test_python_without_venv_says_the_command(programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fresh Debian has Python, but not the part that creates virtual environments."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(StepError) as raised:
        python_packages.ensure_uv(quiet(), tmp_path)
    assert str(raised.value) == (
        f"uv is not on PATH, and {sys.executable} cannot make the virtual environment to install it into.\n"
        "Install what is missing with\n"
        "    sudo apt-get install -y python3-venv\n"
        "Without it nothing here works, for every part needs its Python packages."
    )


def test_a_uv_that_does_not_answer_is_passed_over(programs: Path, tmp_path: Path) -> None:
    """A version manager's shim can be on PATH and lead nowhere."""
    provide(programs, "uv", "exit 1")
    own = tmp_path / "uv" / "bin"
    own.mkdir(parents=True)
    provide(own, "uv")
    assert python_packages.ensure_uv(quiet(), tmp_path) == own / "uv"


def test_a_failing_command_shows_its_last_lines(clone: Path, programs: Path) -> None:
    uv = provide(programs, "uv", "echo the index cannot be reached >&2; exit 3")
    (clone / ".venv" / "bin").mkdir(parents=True)
    (clone / ".venv" / "bin" / "python").touch()
    (clone / ".venv" / "prepared").write_text("as an earlier lock wanted it")
    with pytest.raises(StepError) as raised:
        python_packages.ensure_environment(quiet(), clone, uv)
    assert str(raised.value) == (
        f"'{uv} pip sync --compile-bytecode --python {clone}/.venv/bin/python "
        f"--require-hashes {clone}/requirements.lock' ended with exit status 3:\n  the index cannot be reached"
    )
    assert not (clone / ".venv" / "prepared").exists()


def test_packages_are_installed_again_only_when_lock_or_version_changed(clone: Path, programs: Path) -> None:
    uv = provide(programs, "uv", f"echo called >>{programs}/calls")
    (clone / ".venv" / "bin").mkdir(parents=True)
    (clone / ".venv" / "bin" / "python").touch()

    def calls() -> int:
        python_packages.ensure_environment(quiet(), clone, uv)
        return (programs / "calls").read_text().count("called")

    assert [calls(), calls()] == [2, 2]
    (clone / "requirements.lock").write_text("other==1\n")
    assert calls() == 4
    version = clone / "components" / "stampworks" / "text" / "version.py"
    version.write_text(version.read_text().replace(VERSION, "9.9.9"))
    assert [calls(), calls()] == [6, 6]


def test_an_interrupted_build_of_the_engine_leaves_nothing(clone: Path, programs: Path, tmp_path: Path) -> None:
    """The finished folder appears in one step, so that it is always complete. The error is shown after any amount of
    output."""
    others = "while [ ${i=0} -lt 30 ]; do i=$((i + 1)); echo example.com/other-$i/v2; done"
    wrong = f"echo '# example.com/broken'; echo 'it.go:3:1: undefined: x'; {others}; exit 1"
    provide(programs, "go", f"case $1 in version) echo go1.26.8 ;; build) {wrong} ;; esac")
    cache = tmp_path / "cache"
    (cache / "engine-unfinished-of-a-killed-one").mkdir(parents=True)
    with pytest.raises(
        StepError, match=r"ended with exit status 1:\n  # example.com/broken\n  it.go:3:1: undefined: x$"
    ):
        engine.ensure_engine(quiet(), clone, cache)
    assert list(cache.iterdir()) == []


def test_the_engine_is_built_once(clone: Path, programs: Path, tmp_path: Path) -> None:
    (tmp_path / "python/cmd").mkdir(parents=True)
    (tmp_path / "python/cmd/pulumi-language-python-exec").touch()
    provide(
        programs,
        "go",
        f"echo $1 >>{programs}/calls\n"
        f"case $1$2 in version) echo go1.26.8 ;; list-m) echo {tmp_path} ;; esac\n"
        'while [ $# -gt 1 ]; do case $1 in -o) : >"${2}pulumi" ;; esac; shift; done',
    )
    cache = tmp_path / "cache"
    cache.mkdir()
    for _ in range(2):
        engine.ensure_engine(quiet(), clone, cache)

    assert (programs / "calls").read_text().split() == ["version", "list", "build", "list"]
    link = clone / ".venv" / "engine"
    names = {"pulumi", "pulumi-language-python", "pulumi-language-python-exec"}
    assert {file.name for file in link.iterdir()} == names
    assert re.fullmatch(r"engine-3\.250\.0-[0-9a-f]{12}", link.resolve().parent.name)


def test_a_kubernetes_is_built_once(clone: Path, programs: Path, tmp_path: Path) -> None:
    """Four builds make all its programs with their files, names and release version."""
    modules = tmp_path / "modules"
    for _, _, inner in kubernetes.SHARED.values():
        (modules / inner).mkdir(parents=True, exist_ok=True)
    (tmp_path / "go.py").write_text(FAKE_GO)
    provide(programs, "go", f'exec {sys.executable} {tmp_path}/go.py {tmp_path} "$@"')
    (programs / "chmod").symlink_to("/bin/chmod")
    cache = tmp_path / "cache"
    cache.mkdir()
    for _ in range(2):
        kubernetes.ensure_kubernetes(quiet(), clone, cache)

    assert (tmp_path / "calls").read_text().split().count("build") == 4
    link = clone / ".venv" / "kubernetes"
    built = {program for programs in kubernetes.BUILT.values() for program in programs}
    assert {file.name for file in (link / "bin").iterdir()} == built
    assert all((link / "share" / name).is_dir() for name in kubernetes.SHARED)
    assert re.fullmatch(r"kubernetes-1\.35\.4-[0-9a-f]{12}", link.resolve().name)
    for release in catalog.releases().values():
        asked_for = {name: release.addons[name].version for name in addons.ASKED}
        assert json.loads((link / "versions.json").read_text()) == {**release.kubernetes, **asked_for}


def test_pulumis_own_plugin_is_built_once(clone: Path, programs: Path, tmp_path: Path) -> None:
    """The engine finds it in a folder that names its revision."""
    (tmp_path / "go.py").write_text(FAKE_GO)
    provide(programs, "go", f'exec {sys.executable} {tmp_path}/go.py {tmp_path} "$@"')
    cache = tmp_path / "cache"
    cache.mkdir()
    for _ in range(2):
        plugin.ensure_plugin(quiet(), clone, cache)
    assert (tmp_path / "calls").read_text().split().count("build") == 1
    link = clone / ".venv" / "plugin"
    assert re.fullmatch(r"plugin-20260115-f47bc2d6f199-[0-9a-f]{12}", link.resolve().name)
    module = (clone / "tools" / "plugin" / "go.mod").read_text().splitlines()[0]
    assert module.endswith("/pulumi-resource-kubernetes")  # the last element is the name of Go's program


def test_published_files_equal_the_pinned_ones(clone: Path, programs: Path, tmp_path: Path) -> None:
    """Other files of a module are not used; a changed content leaves no file."""
    modules = {"Dir": str(tmp_path / "module"), "Sum": "h1:other"}
    for _, _, files in published.PINNED:
        place = tmp_path / "module" / files.replace("*", "things")
        place = place if place.suffix else place / "Chart.yaml"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()
        place.chmod(0o444)
    (tmp_path / "module" / "manifests" / "base" / "deployment.yaml").touch()
    for folder in (tmp_path / "module").rglob("charts/*"):
        folder.chmod(0o555)
    cache = tmp_path / "cache"
    cache.mkdir()
    provide(programs, "go", f"case $1 in version) echo go1.26.8 ;; *) echo '{json.dumps(modules)}' ;; esac")
    with pytest.raises(StepError, match=r"github.com/kubeflow/trainer/v2 v2.2.0 is not what it was: h1:other"):
        published.ensure_published(quiet(), clone, cache)
    assert list(cache.iterdir()) == []
    pinned = {module for _, module, _ in published.PINNED}
    sums = "; ".join(f"*{module.path}@*) sum={module.content}" + " ;" for module in pinned)
    told = json.dumps({**modules, "Sum": "SUM"}).replace("SUM", "'$sum'")
    provide(programs, "go", f"case $*$1 in *version) echo go1.26.8; exit ;; {sums} esac; echo '{told}'")
    published.ensure_published(quiet(), clone, cache)
    made = (clone / ".venv" / "published").resolve()
    taken = {str(file.relative_to(made)) for file in made.rglob("*.yaml")}
    assert taken == {
        "schemas/trainer/trainer.kubeflow.org_things.yaml",
        "schemas/mpi-operator/kubeflow.org_things.yaml",
        "charts/aws-efa-k8s-device-plugin/Chart.yaml",
        "charts/node-feature-discovery/Chart.yaml",
        "charts/metrics-server/Chart.yaml",
        "charts/kubeflow-trainer/Chart.yaml",
        "charts/kubeflow-trainer/charts/jobset/Chart.yaml",
        "charts/kubeflow-trainer/charts/lws/Chart.yaml",
    }
    assert all(file.stat().st_mode & 0o200 for file in made.rglob("*"))


def test_an_engine_goes_with_the_last_clone_that_uses_it(clone: Path, programs: Path, tmp_path: Path) -> None:
    """An engine that is in use, or whose users are unknown, stays."""
    cache, other = tmp_path / "cache", tmp_path / "other"
    own = cache / f"engine-3.250.0-{engine._digest(clone, (3, 250, 0))}"
    old, unknown = cache / "engine-3.249.0-0123456789ab", cache / "engine-3.248.0-0123456789ab"
    for folder in (own, old, unknown):
        (folder / "bin").mkdir(parents=True)
    (old / shared.CLONES).write_text(f"{other}\n{clone}\n")
    (other / ".venv").mkdir(parents=True)
    (other / ".venv" / "engine").symlink_to(old / "bin")
    for _ in range(2):
        engine.ensure_engine(quiet(), clone, cache)
    assert (own / shared.CLONES).read_text() == f"{clone}\n"
    assert {folder.name for folder in cache.iterdir()} == {own.name, old.name, unknown.name}
    shutil.rmtree(other)
    engine.ensure_engine(quiet(), clone, cache)
    assert {folder.name for folder in cache.iterdir()} == {own.name, unknown.name}


@pytest.mark.parametrize(("version", "used"), [("v3.249.0", False), ("v3.250.0", True), ("v4.0.1-alpha.2", True)])
def test_a_pulumi_of_the_users_own_is_used_when_new_enough(
    clone: Path, programs: Path, tmp_path: Path, version: str, used: bool
) -> None:
    provide(programs, "pulumi", f"echo {version}")
    provide(programs, "pulumi-language-python")
    link = clone / ".venv" / "engine"
    link.parent.mkdir()
    link.symlink_to(tmp_path)
    cache = tmp_path / "cache"
    cache.mkdir()
    if used:
        engine.ensure_engine(quiet(), clone, cache)
        assert not link.is_symlink()
    else:
        with pytest.raises(StepError, match="go is not on PATH"):
            engine.ensure_engine(quiet(), clone, cache)


def test_an_engine_of_ours_on_path_is_not_the_users_own(clone: Path, programs: Path, tmp_path: Path) -> None:
    """A shell may have sourced tools/env.sh of another clone."""
    provide(programs, "pulumi", "echo v3.250.0")
    provide(programs, "pulumi-language-python")
    with pytest.raises(StepError, match="go is not on PATH"):
        engine.ensure_engine(quiet(), clone, cache=tmp_path)


def test_the_environment_of_training_is_made_once_for_all_clones(clone: Path, programs: Path, tmp_path: Path) -> None:
    """A changed lock creates it again; the old environment is deleted with the last clone that uses it."""
    uv = provide(programs, "uv", f'echo $1 >>{programs}/calls\nif [ $1 = venv ]; then /bin/mkdir -p "$6"; fi')
    cache, other = tmp_path / "cache", tmp_path / "other"
    cache.mkdir()
    shutil.copytree(clone, other)
    for root in (clone, other, clone):
        training.ensure_training(quiet(), root, uv, cache)
    assert (programs / "calls").read_text().split() == ["venv", "pip"]
    [old] = cache.iterdir()
    assert (clone / ".venv/training").resolve() == (other / ".venv/training").resolve() == old

    for root, kept in ((clone, 2), (other, 1)):
        (root / training.LOCK).write_text("other==1\n")
        training.ensure_training(quiet(), root, uv, cache)
        assert len(list(cache.iterdir())) == kept
    assert not old.exists()


def test_an_environment_of_training_that_cannot_be_filled_says_what_works_without(
    clone: Path, programs: Path, tmp_path: Path
) -> None:
    script = 'case $1 in venv) /bin/mkdir -p "$6" ;; pip) echo no route to the index >&2; exit 2 ;; esac'
    uv = provide(programs, "uv", script)
    cache = tmp_path / "cache"
    for _ in range(2):
        with pytest.raises(StepError) as raised:
            training.ensure_training(quiet(), clone, uv, cache)
    assert re.sub("'.*'(?= ended)", "'...'", str(raised.value)) == (
        "torch and what else the training workload is tested with cannot be installed: "
        "'...' ended with exit status 2:\n  no route to the index\n"
        "It takes 6 GB in the cache, once, and an index of Python packages that can be reached.\n"
        "Without it these still work: make demo, make lint, and after '. tools/env.sh' stampworks and pytest,\n"
        "which is all of make test except for tests/training."
    )
    assert not (clone / ".venv" / "training").exists()


def test_the_engine_and_the_sdk_have_one_version() -> None:
    """tools/engine/go.mod has the version to build, pyproject.toml the version of the SDK."""
    dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    version = ".".join(str(number) for number in engine.pinned_version(ROOT))
    assert f"pulumi=={version}" in dependencies


@pytest.mark.parametrize("lock", ["requirements.lock", training.LOCK])
def test_the_locks_name_no_index(lock: str) -> None:
    """Each machine has its own index."""
    assert "://" not in (ROOT / lock).read_text()


def test_set_up_needs_the_standard_library_alone() -> None:
    """It runs before any package is installed."""
    code = "import sys; sys.path.insert(0, '.'); import tools.prepare.__main__"
    subprocess.run([sys.executable, "-I", "-S", "-c", code], cwd=ROOT, check=True)
