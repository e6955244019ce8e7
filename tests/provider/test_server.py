"""Properties of the plugin's base, tested through the real engine with a plugin of a single resource, a file."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from tests.project import wait_for

if TYPE_CHECKING:
    from tests.provider.conftest import ToyProject

pytestmark = pytest.mark.engine


def failed_up(project: ToyProject) -> str:
    done = project.run("up", "--yes", "--skip-preview")
    assert done.returncode == 1, done.stdout
    return done.stdout


def test_create_same_update_replace_delete(project: ToyProject) -> None:
    """The five things that can happen to a resource happen, each once and only when due."""
    project.write('File("one", lines=["a"], size=3, labels={"x": [1, 2.5, True]})')
    assert "2 created" in project.up()
    first = project.state()["one"]
    assert first["outputs"]["size"] == 3
    file = project.world / first["id"]
    assert file.read_text() == "a\n"

    assert "2 unchanged" in project.up()
    assert project.state()["one"]["outputs"]["made"] == 1

    project.write('File("one", lines=["a", "b"], size=3, labels={"x": [1, 2.5, True]})')
    assert "[diff: ~lines]" in project.run("preview").stdout
    assert file.read_text() == "a\n", "a preview touches nothing"
    assert "1 updated" in project.up()
    assert file.read_text() == "a\nb\n"

    elsewhere = project.folder / "elsewhere"
    elsewhere.mkdir()
    project.write(f'File("one", folder={str(elsewhere)!r}, lines=["a"])')
    assert "1 replaced" in project.up()
    assert not file.exists()
    assert (elsewhere / project.state()["one"]["id"]).exists()

    assert project.run("destroy", "--yes", "--skip-preview").returncode == 0
    assert not (elsewhere / first["id"]).exists()


def test_a_row_says_how_its_inputs_differ(project: ToyProject) -> None:
    """Paths and values are listed in words, next to the engine's property names; values of secrets are hidden."""
    password = 'password=pulumi.Output.secret("{}")'
    program = 'f = File("one", lines=["a"], size=3, labels={"of": {"rate": 1}}, ' + password.format("hunter22") + ")\n"
    second = 'File("two", lines=["a"], labels={"made": f.made, "things": [{"name": "x"}]})'
    project.write(program + second)
    project.up()
    changed = program.replace("size=3", "size=4").replace('"rate": 1', '"rate": 2').replace("hunter22", "hunter33")
    project.write(changed + second.replace('{"name": "x"}', '{"name": "x"}, {"name": "y"}'))
    shown = project.run("preview").stdout
    one = "[diff: ~labels,password,size]; labels.of.rate 1 to 2; size 3 to 4; password differs\n"
    assert f"one update {one}" in shown
    two = "[diff: ~labels]; labels.things with y; labels known when the resources before are updated\n"
    assert f"two update {two}" in shown
    assert "hunter" not in shown
    done = project.up()
    assert re.search(rf"one updating \(\S+\) {re.escape(one)}", done)
    assert "hunter" not in done


def test_a_failed_up_keeps_the_outputs_of_the_stack(project: ToyProject) -> None:
    """Both the engine's last lines and the state keep them."""
    project.write('f = File("one", lines=["a"])\npulumi.export("place", f.path)')
    project.up()
    place = project.passes("stack", "output", "place")
    project.write('f = File("one", lines=["b"], mode="fail late")\npulumi.export("place", f.path)')
    assert "- place" not in failed_up(project)
    assert project.passes("stack", "output", "place") == place


def test_the_declaration_outlives_its_stack_when_asked_to(project: ToyProject) -> None:
    """Pulumi deletes the stack file with the stack, unless it is told to keep it."""
    project.passes("config", "set", "declared", "here")
    file = project.folder / "Pulumi.test.yaml"
    project.passes("stack", "rm", "--yes", "--preserve-config")
    assert "here" in file.read_text()
    project.passes("stack", "init", "test")
    project.passes("stack", "rm", "--yes")
    assert not file.exists()


def test_a_new_version_of_the_plugin_replaces_and_updates_nothing(
    project: ToyProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine keeps a provider for each version in the state. A later version takes over the resources unchanged."""
    for version in ("0.1.0", "0.2.0"):
        monkeypatch.setenv("TOY_VERSION", version)
        project.write(f'File("one", lines=["a"], opts=ResourceOptions(version="{version}"))')
        said = project.up()
        assert "is expected to have version" not in said
    assert "2 unchanged" in said
    assert not re.search(r"updated|replaced|deleted", said)
    one = project.state()["one"]
    assert one["outputs"]["made"] == 1
    assert "::default_0_2_0::" in one["provider"]
    providers = [each["urn"].split("::")[-1] for each in project.exported() if each["type"] == "pulumi:providers:toy"]
    assert providers == ["default_0_2_0"]


def test_a_preview_knows_what_stays_and_what_may_change(project: ToyProject) -> None:
    """Outputs are unknown before a creation; an update keeps stable outputs, so that their dependents stay, too."""
    program = """
        f = File("one", lines=["{}"])
        File("two", lines=["a"], labels={{"path": f.path}})
        File("three", lines=["a"], labels={{"made": f.made}})
        pulumi.export("path", f.path)
    """
    project.write(program.format("a"))
    assert "path: [unknown]" in project.run("preview").stdout
    project.up()
    project.write(program.format("b"))
    shown = project.run("preview").stdout
    assert "three update [diff: ~labels]" in shown
    assert "two update" not in shown
    assert "2 updated" in project.up()


def test_results_of_an_operation_are_compared(project: ToyProject) -> None:
    """An input that equals the operation's result is no change."""
    program = """
        f = File("one", lines=["a"], weight={})
        File("two", lines=["a"], labels={{"weight": f.weight}})
    """
    project.write(program.format(3))
    project.up()
    assert project.state()["two"]["inputs"]["labels"] == {"weight": 10}
    project.write(program.format(10))
    assert "3 unchanged" in project.up()
    project.write(program.format(13))
    shown = project.run("preview").stdout
    assert "one update [diff: ~weight]" in shown
    assert "two update [diff: ~labels]" in shown
    assert "2 updated" in project.up()
    assert project.state()["two"]["inputs"]["labels"] == {"weight": 20}


def test_secrets_stay_secret(project: ToyProject) -> None:
    """Secrets and properties marked as secret are encrypted in the state, and masked in errors and progress."""
    given = 'password=pulumi.Output.secret("hunter22")'
    project.write(f'f = File("one", lines=["a"], {given})\npulumi.export("token", f.token)')
    shown = project.up()
    outputs = project.state()["one"]["outputs"]
    assert "ciphertext" in outputs["password"]
    assert "ciphertext" in outputs["token"]
    assert "2 unchanged" in project.up()

    project.write(f'File("two", lines=["a"], mode="fail early", {given})')
    shown += failed_up(project)
    assert "error: the password [secret] is too short" in shown
    assert "hunter22" not in shown


def test_wrong_inputs_are_all_named(project: ToyProject) -> None:
    """Unknown names, missing inputs and wrong types are refused before any creation."""
    project.write('File("one", sizes=3, size="big")')
    shown = project.run("preview").stdout
    assert "sizes value {3} has a problem: toy:index:File has no such input; did you mean size?" in shown
    assert "size value {big} has a problem: must be of type integer: how much it weighs" in shown
    assert "resource 'one' has a problem: lines is missing: what it holds" in shown
    project.write('File("one", lines=[])')
    assert "lines value {[]} has a problem: a file of no lines is no file" in project.run("preview").stdout


def test_partial_creation_is_kept(project: ToyProject) -> None:
    """A creation that fails half-way is kept in the state; the next `up` completes it by an update."""
    project.write('File("one", lines=["a"], mode="fail late")')
    assert "* the ink has run out" in failed_up(project)
    assert project.state()["one"]["initErrors"] == ["the ink has run out"]
    project.write('File("one", lines=["a"])')
    assert "1 updated" in project.up()
    assert "initErrors" not in project.state()["one"]


def test_a_creation_that_left_nothing_is_not_in_the_state(project: ToyProject) -> None:
    """Nothing was created, so that the state has no resource."""
    project.write('File("one", lines=["a"], mode="fail early", password="")')
    assert "error: the password  is too short" in failed_up(project)
    assert project.state() == {}


def test_an_error_nobody_expected_says_where_it_happened(project: ToyProject) -> None:
    """A bug is reported as such, with the line that raised it."""
    project.write('File("one", lines=["a"], mode="bug")')
    shown = failed_up(project)
    assert "KeyError: 'nonsense'" in shown
    assert 'raise KeyError("nonsense")' in shown
    assert "this is a bug in toy" in shown


def test_a_machine_that_ran_out_is_no_bug(project: ToyProject) -> None:
    """The error has the kernel's message, with a remedy, at the resource."""
    project.write('File("one", lines=["a"], mode="full")')
    shown = failed_up(project)
    assert "No space left on device" in shown
    assert "hint: free some space or raise the limit, and run it again" in shown
    assert "bug" not in shown.replace("debug", "")


def test_a_plain_preview_sees_a_changed_and_a_gone_thing(project: ToyProject) -> None:
    """Changes outside of the stack appear as updates or creations without a flag, and `up` repairs them."""
    project.write('File("one", lines=["a"])')
    project.up()
    file = project.world / project.state()["one"]["id"]

    file.with_suffix(".stale").touch()
    shown = project.run("preview").stdout
    assert "one update [diff: -stale]" in shown
    assert shown.count("\n    first is stale\n") == 1, "among the messages at the end, once"
    refreshed = project.run("refresh", "--yes", "--skip-preview").stdout
    assert refreshed.count("\n    first is stale\n") == 1
    assert "1 updated" in project.up()
    assert "2 unchanged" in project.up()

    file.unlink()
    assert "1 to create" in project.run("preview").stdout
    assert "1 created" in project.up()
    assert file.exists()


def test_a_second_creation_adopts_what_the_first_left(project: ToyProject) -> None:
    """An id that depends on nothing but the URN makes a retry find the same thing."""
    project.write('File("one", lines=["a"])')
    project.up()
    file = project.world / project.state()["one"]["id"]
    assert project.run("state", "delete", project.state()["one"]["urn"], "--yes").returncode == 0
    assert "1 created" in project.up()
    assert [path for path in project.world.iterdir() if path.suffix == ""] == [file]


@pytest.mark.parametrize(("mode", "line"), [("slow", "page"), ("slow thread", "sheet")])
def test_an_interrupt_ends_the_work_at_once_and_keeps_what_exists(project: ToyProject, mode: str, line: str) -> None:
    """Ctrl-C: the operation ends within a second, whether it waits or works in a thread, and the state knows it."""
    project.write(f'File("one", lines=["a"], mode={mode!r})')
    engine = project.started("up", "--yes", "--skip-preview")
    wait_for(lambda: any(project.world.iterdir()), 15)
    begun = time.monotonic()
    time.sleep(4)
    seconds = time.monotonic() - begun
    engine.send_signal(signal.SIGINT)
    shown, _ = engine.communicate(timeout=60)  # undisturbed it takes ten minutes
    assert "* interrupted; the next `pulumi up` continues from here" in shown
    lines = [one for one in shown.splitlines() if f" {line} " in one]
    assert 2 <= len(lines) <= seconds / 2 + 3, "progress is shown, a line every two seconds"
    assert project.state()["one"]["initErrors"] == ["interrupted; the next `pulumi up` continues from here"]


def test_a_killed_engine_leaves_no_plugin(project: ToyProject) -> None:
    """The plugin notices the end of its engine, and the next `up` takes over the created resources."""
    project.write('File("one", lines=["a"], mode="slow")')
    engine = project.started("up", "--yes", "--skip-preview")
    wait_for(lambda: any(project.world.iterdir()), 15)
    assert project.plugins()
    engine.kill()
    engine.communicate(timeout=20)
    wait_for(lambda: not project.plugins(), 3)
    assert project.run("cancel", "--yes").returncode == 0
    project.write('File("one", lines=["a"])')
    assert "taking over what is there" in project.up()


def test_custom_timeouts_are_kept(project: ToyProject) -> None:
    """The plugin ends an operation that takes longer than the user allows."""
    project.write("""
        limit = pulumi.CustomTimeouts(create="1s")
        File("one", lines=["a"], mode="slow", opts=ResourceOptions(custom_timeouts=limit))
    """)
    assert "* not done within its timeout of 1 s" in failed_up(project)


def test_ignored_changes_are_no_changes(project: ToyProject) -> None:
    """ignoreChanges hides a difference from the plugin."""
    project.write('File("one", lines=["a", "b"])')
    project.up()
    project.write('File("one", lines=["a", "c"], opts=ResourceOptions(ignore_changes=["lines[1]"]))')
    assert "2 unchanged" in project.up()


def test_the_schema_is_one_the_engine_can_read(project: ToyProject) -> None:
    """`pulumi package get-schema` shows every property with its description."""
    done = subprocess.run(
        ["pulumi", "package", "get-schema", "./bin/pulumi-resource-toy"],
        cwd=project.folder,
        env=project.environment(),
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert "how much it weighs" in done.stdout
    assert '"secret": true' in done.stdout
