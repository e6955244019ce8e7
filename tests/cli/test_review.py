"""`stampworks review` on revisions of a real repository, on folders, declarations and plans."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from stampworks import declaration, planning
from stampworks.cli import exits
from stampworks.cli.main import main
from stampworks.declaration import DeclarationSource
from stampworks.declaration.nodes import ValueNode
from stampworks.plan import Plan

BASE = """\
version: 1
cloud: local
release: "2026.11"
pools:
  - {name: gpu, machine: sim-h100, count: 2}
storage:
  - {name: shared, kind: directory, mount: /shared}
users:
  - {name: alice, uid: 2001}
  - {name: bob, uid: 2002}
"""
STACK = """\
config:
  stampworks:cluster:
    extends: base/all.yaml
    name: NAME
"""
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "review-in-ci.md"
SCRIPT = re.search(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
ALICE, BOB = "{name: alice, uid: 2001}", "{name: bob, uid: 2002}"
ROLE = "extras: {roles: [{path: roles/motd}]}\n"
KEY_BLOBS = [f"AAAAC3NzaC1lZDI1NTE5AAAAI{letter * 43}" for letter in "AB"]
"""Key data of two made-up keys."""
Capsys = pytest.CaptureFixture[str]


class Repository:
    """A git repository with a project of two stacks on the same base."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.git("init", "--quiet", "--initial-branch=main")
        self.write("Pulumi.yaml", "name: test\nruntime: python\nmain: stacks\nstackConfigDir: stacks\n")
        self.write("stacks/base/all.yaml", BASE)
        for name in ("one", "two"):
            self.write(f"stacks/Pulumi.{name}.yaml", STACK.replace("NAME", name))
        self.commit()

    def git(self, *argv: str) -> str:
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", *argv]
        return subprocess.run(command, cwd=self.folder, check=True, capture_output=True, text=True).stdout.strip()

    def write(self, path: str, text: str) -> None:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def edit(self, path: str, old: str, new: str) -> None:
        text = (self.folder / path).read_text()
        assert old in text
        self.write(path, text.replace(old, new, 1))

    def commit(self) -> str:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", "change")
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    folder = tmp_path / "repository"
    folder.mkdir()
    monkeypatch.chdir(folder)
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    return Repository(folder)


def reviewed(capsys: Capsys, *argv: str, stack: str = "one", code: int = exits.FINE) -> dict[str, Any]:
    assert main(["review", "-s", stack, "--format", "json", *argv]) == code
    out, err = capsys.readouterr()
    assert err == ""
    found: dict[str, Any] = json.loads(out)
    return found


def test_a_change_of_a_base(repository: Repository, capsys: Capsys) -> None:
    """Both revisions are read with all bases. Other stacks on the same base are named as followers."""
    repository.edit("stacks/base/all.yaml", "count: 2", "count: 4")
    repository.commit()
    found = reviewed(capsys, "--base", "HEAD~1", "--head", "HEAD")
    assert (found["verdict"], found["base"], found["head"]) == ("pass", "HEAD~1", "HEAD")
    [change] = found["changes"]
    assert change["field"] == "pools[].count"
    assert (change["before"], change["after"], change["policy"]) == (2, 4, "in place")
    assert found["siblings"] == [{"stack": "two", "verdict": "pass", "changes": 1, "restarts": 0, "broken": ""}]
    assert {"verdict", "changes", "cost", "expectations", "rules", "unknown"} <= found.keys()
    assert found["cost"]["difference_usd_per_hour"] is None
    assert all(each["why"] for each in found["cost"]["after"])


def test_a_change_of_one_stack_has_no_siblings(repository: Repository, capsys: Capsys) -> None:
    """Other stacks on the base are unchanged."""
    repository.edit("stacks/Pulumi.one.yaml", "name: one", "name: one\n    proof: {level: quick}")
    found = reviewed(capsys, "--base", "HEAD", "--head", ".")
    assert [each["written"] for each in found["changes"]] == ["proof.level"]
    assert found["siblings"] == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("version: 1", "# nothing\nversion: 1"),
        ("version: 1", "version: 1\nfabric: {oversubscription: 1}"),
        (f"  - {ALICE}\n  - {BOB}", f"  - {BOB}\n  - {ALICE}"),
        ("version: 1\ncloud: local", "cloud: local\nversion: 1"),
    ],
)  # fmt: skip
def test_meaningless_edits_are_no_change(repository: Repository, capsys: Capsys, old: str, new: str) -> None:
    """Comments, defaults, and the order of keys and unordered lists do not count."""
    repository.edit("stacks/base/all.yaml", old, new)
    found = reviewed(capsys, "--base", "HEAD", "--head", ".")
    assert (found["verdict"], found["headline"]) == ("pass", "Nothing changes.")
    empty = ("changes", "follows", "order", "expectations", "rules", "siblings")
    assert [found[each] for each in empty] == [[]] * len(empty)


def test_moving_a_base_is_no_change(repository: Repository, capsys: Capsys) -> None:
    """The position of a value in files does not count."""
    (repository.folder / "stacks" / "base" / "all.yaml").rename(repository.folder / "other.yaml")
    for name in ("one", "two"):
        repository.edit(f"stacks/Pulumi.{name}.yaml", "base/all.yaml", "../other.yaml")
    repository.commit()
    assert reviewed(capsys, "--base", "HEAD~1", "--head", "HEAD")["changes"] == []


def test_plans_and_declarations(repository: Repository, capsys: Capsys, tmp_path: Path) -> None:
    """Files are sides, too, and need no repository."""
    assert main(["plan", "--json", "-s", "one"]) == exits.FINE
    plan = tmp_path / "plan.json"
    plan.write_text(capsys.readouterr().out)
    declaration = tmp_path / "other.yaml"
    declaration.write_text(BASE.replace("count: 2", "count: 3") + "name: one\n")
    found = reviewed(capsys, "--base", str(plan), "--head", str(declaration))
    assert [each["written"] for each in found["changes"]] == ["pools[gpu].count"]
    assert found["stack"] == "one"


def test_a_stack_that_is_new_and_one_that_goes(repository: Repository, capsys: Capsys) -> None:
    """A stack may be missing on one side, but not on both."""
    repository.write("stacks/Pulumi.three.yaml", STACK.replace("NAME", "three"))
    repository.commit()
    argv = ["--base", "HEAD~1", "--head", "HEAD"]
    found = reviewed(capsys, *argv, stack="three", code=exits.UNKNOWN)  # the capacity of this machine was not measured
    assert (found["kind"], {each["policy"] for each in found["changes"]}) == ("created", {"create"})
    found = reviewed(capsys, "--base", "HEAD", "--head", "HEAD~1", stack="three", code=exits.NO)
    assert (found["kind"], found["verdict"]) == ("destroyed", "fail")
    assert main(["review", "-s", "thre", "--base", "HEAD~1", "--head", "HEAD"]) == exits.WRONG_INPUT
    assert "there is no stack thre, neither at HEAD~1 nor at HEAD" in capsys.readouterr().err


def test_files_of_a_role(repository: Repository, capsys: Capsys) -> None:
    """The content of their files is not part of a plan, and still a change."""
    repository.write("stacks/base/all.yaml", BASE + ROLE.replace("roles/motd", "../roles/motd"))
    repository.write("stacks/roles/motd/tasks/main.yml", "[]\n")
    repository.commit()
    repository.write("stacks/roles/motd/tasks/main.yml", "[] # other\n")
    repository.commit()
    found = reviewed(capsys, "--base", "HEAD~1", "--head", "HEAD")
    assert [each["path"] for each in found["changes"]] == ["extras.roles[motd].content"]
    assert reviewed(capsys, "--base", "HEAD", "--head", ".")["changes"] == []


def wrong(capsys: Capsys, *argv: str) -> str:
    assert main(["review", "-s", "one", *argv]) == exits.WRONG_INPUT
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    return out + err


@pytest.mark.parametrize(("side", "other"), [("--base", "--head"), ("--head", "--base")])
def test_a_side_that_does_not_load(repository: Repository, capsys: Capsys, side: str, other: str) -> None:
    """The error names the file; the temporary folder of a revision is not shown."""
    repository.edit("stacks/base/all.yaml", "count: 2", "count: many")
    repository.commit()
    assert main(["review", "-s", "one", other, "HEAD~1", side, "main"]) == exits.WRONG_INPUT
    out, err = capsys.readouterr()
    assert err.startswith(f"{side} main:stacks/base/all.yaml:5:43: pools[0].count: must be a whole number")
    assert "stampworks-review" not in out + err
    assert f"No review: {side.removeprefix('--')} does not load" in out
    assert f"`{side} main:stacks/base/all.yaml:5:43`" in out
    assert main(["review", "-s", "one", other, "HEAD~1", side, "main", "--format", "json"]) == exits.WRONG_INPUT
    found = json.loads(capsys.readouterr().out)
    assert (found["verdict"], found["error"]["side"]) == (None, side.removeprefix("--"))
    [problem] = found["error"]["problems"]
    assert (problem["file"], problem["line"], problem["column"]) == (f"{side} main:stacks/base/all.yaml", 5, 43)
    assert (problem["path"], problem["message"][:22]) == ("pools[0].count", "must be a whole number")
    assert "stampworks-review" not in str(problem)


def test_another_release_of_the_format(repository: Repository, capsys: Capsys) -> None:
    """An error of its side."""
    repository.edit("stacks/base/all.yaml", "version: 1", "version: 2")
    text = wrong(capsys, "--base", "HEAD", "--head", ".")
    assert "--head stacks/base/all.yaml:1:10: version" in text


def test_a_plan_of_another_release(repository: Repository, capsys: Capsys) -> None:
    """A plan of another release is refused, as is a file that is no plan."""
    for text in ("{}", "[" * 100_000, '{"version": 7}', "\ud800".encode("utf-8", "surrogatepass").decode("latin-1")):
        repository.write("plan.json", text)
        assert "--base: plan.json is no plan of this release" in wrong(capsys, "--base", "plan.json", "--head", ".")


@pytest.mark.parametrize("name", ["--upload-pack=x", "-h", ""])
def test_options_are_no_revisions(repository: Repository, capsys: Capsys, name: str) -> None:
    """Git never sees them."""
    assert main(["review", f"--base={name}", "--head", "."]) == exits.WRONG_INPUT
    assert "is no revision and no file" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["nowhere", "HEAD~99", "main:stacks", "x" * 5000, "$(touch x)"])
def test_sides_that_do_not_exist(repository: Repository, capsys: Capsys, name: str) -> None:
    """The side is neither a revision nor a path; the page says so, too."""
    said = "is neither a revision of this repository nor a file"
    assert said in wrong(capsys, "--base", name, "--head", ".")
    assert main(["review", "-s", "one", "--base", name, "--head", "."]) == exits.WRONG_INPUT
    assert "No review: base does not load" in capsys.readouterr().out
    assert main(["review", "-s", "one", "--base", name, "--head", ".", "--format", "json"]) == exits.WRONG_INPUT
    [problem] = json.loads(capsys.readouterr().out)["error"]["problems"]
    assert (problem["file"], problem["line"]) == (name, None)
    assert problem["message"].endswith(said)
    assert not (repository.folder / "x").exists()


@pytest.mark.parametrize("twice", ["-s", "--base", "--head"])
def test_one_stack_a_run(repository: Repository, capsys: Capsys, twice: str) -> None:
    """A second stack would not be reviewed, so it is refused."""
    assert main(["review", "-s", "one", "--base", "HEAD", "--head", ".", twice, "two"]) == exits.WRONG_INPUT
    assert "is there twice, and one run reviews one stack" in capsys.readouterr().err


def test_a_folder_that_is_no_project(repository: Repository, capsys: Capsys, tmp_path: Path) -> None:
    """The side does not load; this includes a broken Pulumi.yaml."""
    said = wrong(capsys, "--base", "HEAD", "--head", str(tmp_path))
    assert "No review: head does not load" in said
    assert f"--head: no Pulumi.yaml in {tmp_path} or above it" in said
    repository.write("Pulumi.yaml", "name: [")
    assert "--head: " in (said := wrong(capsys, "--base", "HEAD", "--head", "."))
    assert "Pulumi.yaml:1 is not YAML" in said


def test_names_of_stacks_are_no_lines(repository: Repository, capsys: Capsys) -> None:
    """A stack's file may have any name; each error stays on its line."""
    repository.write("stacks/Pulumi.x\n  hint: run it.yaml", "")
    assert main(["review", "-s", "three\n", "--base", "HEAD", "--head", "."]) == exits.WRONG_INPUT
    assert capsys.readouterr().err == (
        "there is no stack three\\n, neither at HEAD nor at .\n  hint: there is one, two, x\\n  hint: run it\n"
    )


def test_a_name_that_is_both(repository: Repository, capsys: Capsys) -> None:
    """The name is ambiguous."""
    repository.git("branch", "stacks")
    text = wrong(capsys, "--base", "stacks", "--head", ".")
    assert "--base stacks is both a path and a revision" in text
    assert reviewed(capsys, "--base", "refs/heads/stacks", "--head", "./stacks")["changes"] == []


OUTSIDE = "name: secret\npassword: hunter2\n"


@pytest.mark.parametrize("kind", ["absolute", "above", "link", "role"])
def test_a_revision_names_nothing_outside_of_it(
    repository: Repository, capsys: Capsys, tmp_path: Path, kind: str
) -> None:
    """A revision cannot refer to files of the reviewing machine, existing or not."""
    secret = tmp_path / "secret.yaml"
    secret.write_text(OUTSIDE)
    named = {
        "absolute": str(secret),
        "above": "../" * 40 + str(secret).lstrip("/"),
        "link": "base/link.yaml",
        "role": "base/all.yaml",
    }[kind]
    (repository.folder / "stacks" / "base" / "link.yaml").symlink_to(secret)
    repository.edit("stacks/Pulumi.one.yaml", "base/all.yaml", named)
    if kind == "role":
        repository.write("stacks/base/all.yaml", BASE + ROLE.replace("roles/motd", f"../../../{tmp_path.name}"))
    repository.commit()
    text = wrong(capsys, "--base", "HEAD~1", "--head", "HEAD")
    assert "hunter2" not in text
    said = "does not exist" if kind == "link" else "lies outside of the repository"
    assert said in text


def test_links_inside_of_a_revision(repository: Repository, capsys: Capsys) -> None:
    """Links within the revision are followed."""
    (repository.folder / "stacks" / "base" / "link.yaml").symlink_to("all.yaml")
    repository.edit("stacks/Pulumi.one.yaml", "base/all.yaml", "base/link.yaml")
    repository.commit()
    assert reviewed(capsys, "--base", "HEAD~1", "--head", "HEAD")["changes"] == []


def test_a_project_below_the_top(repository: Repository, capsys: Capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    """A repository may hold more than the project."""
    below = repository.folder / "infra"
    below.mkdir()
    for name in ("Pulumi.yaml", "stacks"):
        (repository.folder / name).rename(below / name)
    repository.commit()
    monkeypatch.chdir(below / "stacks")
    repository.edit("infra/stacks/base/all.yaml", "count: 2", "count: 3")
    found = reviewed(capsys, "--base", "HEAD", "--head", ".")
    assert [each["written"] for each in found["changes"]] == ["pools[gpu].count"]


def test_a_sibling_that_stays_as_it_is(repository: Repository, capsys: Capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unaffected sibling is not planned, and no file is read twice."""
    planned: list[str] = []
    read: list[Path] = []
    plan, named_in = planning.plan, declaration.named_in

    def planning_noted(source: DeclarationSource) -> Plan:
        planned.append(source.declaration.name)
        return plan(source)

    def reading_noted(file: Path) -> list[tuple[str, ValueNode]]:
        read.append(file)
        return named_in(file)

    monkeypatch.setattr(planning, "plan", planning_noted)
    monkeypatch.setattr(declaration, "named_in", reading_noted)
    repository.edit("stacks/Pulumi.one.yaml", "name: one", "name: one\n    proof: {level: quick}")
    repository.commit()
    reviewed(capsys, "--base", "HEAD~1", "--head", "HEAD")
    assert planned == ["one", "one"]
    assert len(read) == len(set(read)) == 6


def test_siblings_that_take_long(repository: Repository, capsys: Capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    """The review has a time limit; stacks beyond it are listed."""
    monkeypatch.setattr("stampworks.cli.review.SIBLINGS_S", -1)
    repository.edit("stacks/base/all.yaml", "count: 2", "count: 3")
    found = reviewed(capsys, "--base", "HEAD", "--head", ".")
    assert found["siblings"] == []
    assert "whether stack two changes as well: others took too long" in found["unknown"]


def test_a_change_that_breaks_another_stack(repository: Repository, capsys: Capsys) -> None:
    """The review fails and names the stack with the first problem, even if its own stack does not change."""
    repository.write("stacks/base/other.yaml", BASE)
    repository.write("stacks/Pulumi.three.yaml", STACK.replace("NAME", "three").replace("all.yaml", "other.yaml"))
    repository.commit()
    repository.edit("stacks/base/other.yaml", "count: 2", "count: many")
    found = reviewed(capsys, "--base", "HEAD", "--head", ".", code=exits.NO)
    assert (found["verdict"], found["changes"]) == ("fail", [])
    assert found["headline"] == "Nothing changes. Stacks that do not load any more: three."
    [sibling] = found["siblings"]
    assert (sibling["stack"], sibling["verdict"], sibling["changes"]) == ("three", "fail", 0)
    assert re.fullmatch(r"--head .*base/other\.yaml:5:43: .*many.*", sibling["broken"])
    assert main(["review", "-s", "one", "--base", "HEAD", "--head", "."]) == exits.NO
    assert "| `three` | fail | does not load: `--head " in capsys.readouterr().out


def test_a_change_that_another_stack_refuses(repository: Repository, capsys: Capsys) -> None:
    """The change may also lose a stack that is not under review."""
    repository.edit("stacks/Pulumi.two.yaml", "name: two", "name: other")
    found = reviewed(capsys, "--base", "HEAD", "--head", ".", code=exits.NO)
    assert found["headline"] == "Nothing changes. Stacks whose own review fails: two."


def test_effects_that_fail_a_review(repository: Repository, capsys: Capsys) -> None:
    """Only the named effects fail it, and the page lists the effects to accept."""
    repository.edit("stacks/base/all.yaml", "machine: sim-h100", "machine: sim-a100-small")
    found = reviewed(capsys, "--base", "HEAD", "--head", ".", "--fail-on", "data")
    assert (found["verdict"], found["effects"]) == ("pass", ["replace", "restart"])
    assert "Needs approval: parts are removed and created again." in found["headline"]
    assert main(["review", "-s", "one", "--base", "HEAD", "--head", ".", "--fail-on", "replace"]) == exits.NO
    assert capsys.readouterr().err == "the change has an effect that --fail-on names: replace\n"
    assert main(["review", "--base", "HEAD", "--head", ".", "--fail-on", "money"]) == exits.WRONG_INPUT
    assert "invalid choice: 'money'" in capsys.readouterr().err


def test_a_stack_that_was_broken_before(repository: Repository, capsys: Capsys) -> None:
    """The review names the broken stack, without blaming the change."""
    repository.edit("stacks/Pulumi.two.yaml", "name: two", "name: two\n    wrong: 1")
    repository.commit()
    repository.edit("stacks/base/all.yaml", "count: 2", "count: 3")
    found = reviewed(capsys, "--base", "HEAD", "--head", ".")
    assert "whether stack two changes as well: base of it does not load" in found["unknown"]


def test_keys_in_files_of_a_revision(repository: Repository, capsys: Capsys) -> None:
    """Keys are read from the revision, relative to the base that names them."""
    keys = [f"ssh-ed25519 {blob} alice@laptop\n" for blob in KEY_BLOBS]
    repository.edit("stacks/base/all.yaml", ALICE, "{name: alice, uid: 2001, keys: [{file: keys/alice.pub}]}")
    repository.write("stacks/base/keys/alice.pub", keys[0])
    repository.commit()
    repository.write("stacks/base/keys/alice.pub", keys[1])
    repository.commit()
    found = reviewed(capsys, "--base", "HEAD~1", "--head", "HEAD")
    assert [each["written"] for each in found["changes"]] == ["users[alice].keys"]


def test_secrets_are_not_read(repository: Repository, capsys: Capsys) -> None:
    """Secrets and unrelated settings of a stack's configuration are neither read nor shown."""
    text = (repository.folder / "stacks" / "Pulumi.one.yaml").read_text()
    repository.write("stacks/Pulumi.one.yaml", f"encryptionsalt: v1:abc\n{text}  aws:secretKey: {{secure: hunter2}}\n")
    assert main(["review", "-s", "one", "--base", "HEAD", "--head", "."]) == exits.FINE
    assert "hunter2" not in capsys.readouterr().out


def script(repository: Repository, base: str, head: str) -> tuple[int, str]:
    """The script of docs/how-to/review-in-ci.md, and the page that it writes."""
    assert SCRIPT
    (repository.folder / "all.md").unlink(missing_ok=True)
    environment = {
        **os.environ,
        "BASE": base,
        "HEAD": head,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    done = subprocess.run(["bash", "-c", SCRIPT[1]], cwd=repository.folder, env=environment, check=False)
    return done.returncode, (repository.folder / "review.md").read_text()


def test_the_script_of_the_recipe(repository: Repository) -> None:
    """The script reviews all stacks of both revisions, and fails when one review fails."""
    base = repository.git("rev-parse", "HEAD")
    (repository.folder / "stacks" / "Pulumi.two.yaml").unlink()
    repository.write("stacks/Pulumi.-x $(touch harm) @team.yaml", STACK.replace("NAME", "three"))
    repository.edit("stacks/base/all.yaml", "count: 2", "count: 3")
    code, page = script(repository, base, repository.commit())
    assert code == 1  # a stack with protected storage goes, which the page of each stack says
    assert [line.partition("stack ")[2] for line in page.splitlines() if line.startswith("###")] == [
        "`-x $(touch harm) @team`: fail",
        "`one`: fail",
        "`two`: fail",
    ]
    assert not (repository.folder / "harm").exists()


def test_the_script_passes_when_nothing_is_refused(repository: Repository) -> None:
    """A page for each stack."""
    base = repository.git("rev-parse", "HEAD")
    repository.edit("stacks/base/all.yaml", "count: 2", "count: 3")
    code, page = script(repository, base, repository.commit())
    assert code == 0
    assert page.count("**1 change, in place.") == 2


def replaced(path: str, value: Any) -> Any:
    def change(data: Any) -> None:
        *above, last = [int(step) if step.isdecimal() else step for step in path.split(".")]
        for step in above:
            data = data[step]
        data[last] = value

    return change


@pytest.mark.parametrize(
    ("path", "value", "text"),
    [
        ("groups.1.machine.name", "p5-old", "Plan.groups['gpu'].machine.name: the catalog has no 'p5-old'"),
        ("storage.0.kind", "fsx-old", "Plan.storage['shared'].kind: the catalog has no 'fsx-old'"),
        ("network.subnets.0.cidr", "zzz", "Plan.network.subnets["),
        ("network.subnets.0.cidr", "10.0.0.0/99", "Plan.network.subnets["),
    ],
)
def test_a_plan_that_names_what_is_not_there(
    repository: Repository, capsys: Capsys, path: str, value: Any, text: str
) -> None:
    """An inconsistent plan, of an older catalog or edited, is an error of its side."""
    repository.write("aws.yaml", AWS)
    assert main(["plan", "--json", "aws.yaml"]) in (exits.FINE, exits.UNKNOWN, exits.NO)
    data = json.loads(capsys.readouterr().out)
    replaced(path, value)(data)
    repository.write("plan.json", json.dumps(data))
    words = wrong(capsys, "--base", "plan.json", "--head", "aws.yaml")
    assert "--base: plan.json is no plan of this release of stampworks: " in words
    assert text in words


AWS = """\
version: 1
name: one
cloud: aws
region: us-east-1
network: {cidr: 10.0.0.0/16}
pools:
  - {name: gpu, machine: p5, count: 2}
storage:
  - {name: shared, kind: fsx-lustre, tier: PERSISTENT_2 SSD, capacity: 9600, mbps_per_tib: 125, mount: /shared}
"""


def test_a_default_that_follows_is_no_change_of_its_own(repository: Repository, capsys: Capsys) -> None:
    """The nodes of a leaf follow from the machine, so they are no declared change."""
    repository.write("a.yaml", HOSTS)
    repository.write("b.yaml", HOSTS.replace("dgx-h100", "dgx-a100"))
    assert main(["review", "--format", "json", "--base", "a.yaml", "--head", "b.yaml"]) in (exits.FINE, exits.UNKNOWN)
    found = json.loads(capsys.readouterr().out)
    assert [each["written"] for each in found["changes"]] == ["pools[gpu].machine"]
    assert "fabric.leaf_nodes" in found["follows"]
    assert [each["group"] for each in found["nodes"]["restart"]] == ["gpu"]
    repository.write("a.yaml", HOSTS + "fabric: {leaf_nodes: 32}\n")
    main(["review", "--format", "json", "--base", "a.yaml", "--head", "b.yaml"])
    assert "fabric.leaf_nodes" in [each["written"] for each in json.loads(capsys.readouterr().out)["changes"]]


HOSTS = """\
version: 1
name: one
cloud: hosts
pools:
  - {name: gpu, machine: dgx-h100, count: 2}
"""
