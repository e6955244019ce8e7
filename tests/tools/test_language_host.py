"""The language host under the real engine."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.project import wait_for
from tests.tools.projects import ROOT, SourcedProject

pytestmark = pytest.mark.engine

STUBBORN = """
import os, pathlib, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
pathlib.Path("pids").write_text(f"{os.getpid()} {os.getppid()}")
time.sleep(600)
"""


TALKING = """
import os, pathlib, time, pulumi
pulumi.log.info("here")
pathlib.Path("pids").write_text(f"{os.getpid()} {os.getppid()}")
time.sleep(600)
"""


# Policy pack without the policy SDK: the SDK is a separate package, and this test does not need it
POLICY_PACK = """
import concurrent.futures, grpc, sys
from pulumi.runtime.proto import analyzer_pb2 as pb, analyzer_pb2_grpc, plugin_pb2

assert len(sys.argv) == 3  # as pulumi.policy is given them, which readies the SDK for a pack: engine and folder

class Strict(analyzer_pb2_grpc.AnalyzerServicer):
    def GetAnalyzerInfo(self, request, context):
        return pb.AnalyzerInfo(name="strict", policies=[pb.PolicyInfo(name="none", enforcementLevel=pb.MANDATORY)])
    def GetPluginInfo(self, request, context):
        return plugin_pb2.PluginInfo(version="1.0.0")
    def Analyze(self, request, context):
        return pb.AnalyzeResponse()
    def AnalyzeStack(self, request, context):
        return pb.AnalyzeResponse(diagnostics=[pb.AnalyzeDiagnostic(
            policyName="none", policyPackName="strict", message="no stack may pass", enforcementLevel=pb.MANDATORY)])

server = grpc.server(concurrent.futures.ThreadPoolExecutor())
analyzer_pb2_grpc.add_AnalyzerServicer_to_server(Strict(), server)
port = server.add_insecure_port("127.0.0.1:0")
server.start()
print(port, flush=True)
server.wait_for_termination()
"""


def test_a_program_gets_its_configuration_and_gives_its_outputs(project: SourcedProject) -> None:
    """Configuration, secrets, folder and environment reach the program; outputs are returned."""
    project.program(
        "import os, sys, pulumi\n"
        "config = pulumi.Config()\n"
        "pulumi.export('plain', config.require('plain'))\n"
        "pulumi.export('hidden', config.require_secret('hidden'))\n"
        "pulumi.export('where', [os.getcwd(), sys.prefix, os.environ['VIRTUAL_ENV'], pulumi.get_stack()])\n"
        "print('said on the way')\n"
    )
    assert project.run("config", "set", "plain", "1").returncode == 0
    assert project.run("config", "set", "hidden", "two", "--secret").returncode == 0

    done = project.run("up", "--yes", "--skip-preview")

    assert done.returncode == 0, done.stdout
    assert "said on the way" in done.stdout
    assert "warning" not in done.stdout
    outputs = project.run("stack", "output", "--json").stdout
    venv = str(ROOT / ".venv")
    assert f'"where": [\n    "{project.folder}",\n    "{venv}",\n    "{venv}",\n    "dev"\n  ]' in outputs
    assert '"plain": "1"' in outputs
    assert '"hidden": "[secret]"' in outputs


def test_an_exception_is_shown_once_with_the_users_own_lines(project: SourcedProject) -> None:
    """The traceback begins in the user's program, and no second error repeats that something went wrong."""
    project.program("def helper():\n    raise ValueError('on purpose')\n\nhelper()\n")

    done = project.run("preview")

    assert done.returncode != 0
    assert (
        "    error: Program failed with an unhandled exception:\n"
        "    Traceback (most recent call last):\n"
        f'      File "{project.folder}/__main__.py", line 4, in <module>\n'
        "        helper()\n"
    ) in done.stdout
    assert "ValueError: on purpose" in done.stdout
    assert "ended with" not in done.stdout


def test_a_run_error_is_shown_without_a_traceback(project: SourcedProject) -> None:
    """pulumi.RunError has a text for the user, who needs no traceback of the toolkit."""
    project.program("import pulumi\nraise pulumi.RunError('the declaration is wrong')\n")

    done = project.run("preview")

    assert done.returncode != 0
    assert "    error: the declaration is wrong\n" in done.stdout
    assert "Traceback" not in done.stdout


def test_a_program_that_dies_says_how(project: SourcedProject) -> None:
    project.program("import os\nos.kill(os.getpid(), 9)\n")

    done = project.run("preview")

    assert done.returncode != 0
    assert "error: an unhandled error occurred: the program ended with signal 9\n" in done.stdout


def test_a_missing_virtual_environment_is_named(project: SourcedProject) -> None:
    file = project.folder / "Pulumi.yaml"
    file.write_text(file.read_text().replace(str(ROOT / ".venv"), "absent"))

    done = project.run("preview")

    assert done.returncode != 0
    assert (
        f"the virtual environment {project.folder}/absent, which the project in {project.folder} names, "
        "has no bin/python: 'pulumi install' makes it"
    ) in done.stdout


def test_a_policy_pack_stops_a_preview(project: SourcedProject) -> None:
    """The engine runs a policy pack through the language host, from its source."""
    pack = project.folder / "pack"
    pack.mkdir()
    (pack / "PulumiPolicy.yaml").write_text((project.folder / "Pulumi.yaml").read_text().split("name: trial\n")[1])
    (pack / "__main__.py").write_text(POLICY_PACK)

    done = project.run("preview", "--policy-pack", str(pack))

    assert done.returncode != 0
    assert "no stack may pass" in done.stdout


def test_a_component_plugin_runs_from_its_source(project: SourcedProject) -> None:
    """A folder with PulumiPlugin.yaml is a provider that the language host starts."""
    plugin = project.folder / "plugin"
    plugin.mkdir()
    runtime = (project.folder / "Pulumi.yaml").read_text().split("name: trial\n")[1]
    (plugin / "PulumiPlugin.yaml").write_text(runtime)
    (plugin / "__main__.py").write_text(
        "import pulumi\n"
        "from typing import TypedDict\n"
        "from pulumi.provider.experimental import component_provider_host\n"
        "class Args(TypedDict):\n"
        "    text: pulumi.Input[str]\n"
        "class Shout(pulumi.ComponentResource):\n"
        "    loud: pulumi.Output[str]\n"
        "    def __init__(self, name: str, args: Args, opts: pulumi.ResourceOptions | None = None):\n"
        "        super().__init__('loud:index:Shout', name, {}, opts)\n"
        "        self.loud = pulumi.Output.from_input(args['text']).apply(str.upper)\n"
        "        self.register_outputs({'loud': self.loud})\n"
        "component_provider_host(name='loud', components=[Shout])\n"
    )
    with (project.folder / "Pulumi.yaml").open("a") as file:
        file.write("plugins:\n  providers:\n    - {name: loud, path: plugin}\n")
    project.program(
        "import pulumi\n"
        "class Shout(pulumi.ComponentResource):\n"
        "    loud: pulumi.Output[str]\n"
        "    def __init__(self):\n"
        "        super().__init__('loud:index:Shout', 'one', {'text': 'hello', 'loud': None}, None, remote=True)\n"
        "pulumi.export('loud', Shout().loud)\n"
    )

    done = project.run("up", "--yes", "--skip-preview")

    assert done.returncode == 0, done.stdout
    assert 'loud: "HELLO"' in done.stdout


@pytest.mark.parametrize(
    "stop",
    [
        pytest.param(lambda engine: engine.kill(), id="killed"),
        pytest.param(lambda engine: engine.send_signal(signal.SIGINT), id="interrupted"),
    ],
)
def test_nothing_outlives_the_engine(project: SourcedProject, stop: Callable[[subprocess.Popen[str]], None]) -> None:
    """Host and program end soon after the engine, for any end of the engine and any reaction of the program."""
    project.program(STUBBORN)
    with project.started("preview") as engine:
        pids = _appeared(project.folder / "pids").split()
        stop(engine)
        engine.wait(timeout=60)
        wait_for(lambda: not any(Path("/proc", pid).exists() for pid in pids), 60)


def test_a_killed_host_takes_its_program_with_it(project: SourcedProject) -> None:
    """The engine would otherwise wait for ever for a program that still talks to it."""
    project.program(TALKING)
    with project.started("preview") as engine:
        program, host = map(int, _appeared(project.folder / "pids").split())
        os.kill(host, signal.SIGKILL)
        try:
            assert engine.wait(timeout=60) != 0
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(program, signal.SIGKILL)


def _appeared(file: Path) -> str:
    wait_for(lambda: file.exists() and file.read_text(), 20)
    return file.read_text()


def test_the_host_ends_quietly_when_asked(tmp_path: Path) -> None:
    """The port is its only output; after SIGINT it ends at once without a message."""
    with subprocess.Popen(
        [sys.executable, "-m", "tools.language_host", tmp_path / "executor", "127.0.0.1:1"],
        cwd=ROOT,
        env=os.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as host:
        assert host.stdout
        assert host.stdout.readline().strip().isdecimal()
        host.send_signal(signal.SIGINT)
        said, _ = host.communicate(timeout=60)
    assert (host.returncode, said) == (0, "")


@pytest.mark.long
def test_install_makes_the_environment_that_the_project_names(project: SourcedProject) -> None:
    file = project.folder / "Pulumi.yaml"
    file.write_text(file.read_text().replace(str(ROOT / ".venv"), "fresh"))
    (project.folder / "requirements.txt").touch()

    done = project.run("install")

    assert done.returncode == 0, done.stdout
    assert (project.folder / "fresh" / "bin" / "python").exists()
