"""Methods of a language host that the engine calls. Names are the protocol's."""

# ruff: noqa: N802, ARG002
from __future__ import annotations

import json
import os
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.empty_pb2 import Empty
from google.protobuf.json_format import MessageToDict, ParseDict

from .children import Children, Command, Stream
from .environments import Environment, EnvironmentMissingError
from .protocol import LanguageRuntimeServicer, language, plugin

ERROR_WAS_SHOWN = 32
"""Exit status with which the executor says that the user has already seen the error."""

Context = grpc.aio.ServicerContext[Any, Any]


class Host(LanguageRuntimeServicer):
    """The host of Python programs, plugins and policy packs for one engine."""

    def __init__(self, engine: str, executor: Path, children: Children) -> None:
        self._engine = engine
        self._executor = executor
        self._children = children

    async def Handshake(
        self, request: language.LanguageHandshakeRequest, context: Context
    ) -> language.LanguageHandshakeResponse:
        """Accept the engine; this host has nothing to agree on."""
        return language.LanguageHandshakeResponse()

    async def GetPluginInfo(self, request: Empty, context: Context) -> plugin.PluginInfo:
        """Return the version of the Pulumi package of Python as this host's."""
        return plugin.PluginInfo(version=version("pulumi"))

    async def Run(self, request: language.RunRequest, context: Context) -> language.RunResponse:
        """Run the program once, for a preview or for an update."""
        environment = await _environment(request.info, context)
        command = _program(request, environment, self._executor, self._engine)
        status = await self._children.run(command)
        if status in (0, ERROR_WAS_SHOWN):
            return language.RunResponse(bail=status == ERROR_WAS_SHOWN)
        return language.RunResponse(error=f"the program ended with {_ending(status)}")

    async def RunPlugin(  # type: ignore[override]  # grpc.aio takes a coroutine that writes just as well
        self, request: language.RunPluginRequest, context: Context
    ) -> None:
        """Run a policy pack or plugin from its source, and pass on its output."""

        async def write(stream: Stream, piece: bytes) -> None:
            response = language.RunPluginResponse
            await context.write(response(stdout=piece) if stream == "stdout" else response(stderr=piece))

        environment = await _environment(request.info, context)
        status = await self._children.stream(_plugin(request, environment), write)
        await context.write(language.RunPluginResponse(exitcode=status))

    async def InstallDependencies(  # type: ignore[override]  # as above
        self, request: language.InstallDependenciesRequest, context: Context
    ) -> None:
        """Make the project's virtual environment, and install its requirements."""

        async def write(stream: Stream, piece: bytes) -> None:
            response = language.InstallDependenciesResponse
            await context.write(response(stdout=piece) if stream == "stdout" else response(stderr=piece))

        for argv in _installation(Path(request.directory), request.info):
            status = await self._children.stream(Command(argv, request.directory, dict(os.environ)), write)
            if status:
                await context.abort(grpc.StatusCode.UNKNOWN, f"'{' '.join(argv)}' ended with {_ending(status)}")

    async def GetRequiredPackages(
        self, request: language.GetRequiredPackagesRequest, context: Context
    ) -> language.GetRequiredPackagesResponse:
        """Return the Pulumi plugins that the program's environment needs."""
        environment = await _environment(request.info, context)
        packages = [
            ParseDict(described, plugin.PackageDependency(kind="resource"), ignore_unknown_fields=True)
            for described in environment.pulumi_plugins()
        ]
        return language.GetRequiredPackagesResponse(packages=packages)

    async def GetProgramDependencies(
        self, request: language.GetProgramDependenciesRequest, context: Context
    ) -> language.GetProgramDependenciesResponse:
        """Return the distributions of the program's environment with their versions."""
        environment = await _environment(request.info, context)
        found = environment.distributions(transitive=request.transitiveDependencies)
        dependencies = [language.DependencyInfo(name=name, version=version) for name, version in found]
        return language.GetProgramDependenciesResponse(dependencies=dependencies)

    async def About(self, request: language.AboutRequest, context: Context) -> language.AboutResponse:
        """Return the program's interpreter and its version."""
        environment = await _environment(request.info, context)
        return language.AboutResponse(executable=str(environment.python), version=environment.python_version())

    async def RuntimeOptionsPrompts(
        self, request: language.RuntimeOptionsRequest, context: Context
    ) -> language.RuntimeOptionsResponse:
        """Return no prompts: `pulumi new` has nothing to ask."""
        return language.RuntimeOptionsResponse()

    async def Cancel(self, request: Empty, context: Context) -> Empty:
        """Do nothing: the engine cancels its calls as well, and a cancelled call ends its processes."""
        return Empty()


async def _environment(info: language.ProgramInfo, context: Context) -> Environment:
    try:
        return Environment.of(info.root_directory, MessageToDict(info.options))
    except EnvironmentMissingError as missing:
        await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(missing))


def _program(request: language.RunRequest, environment: Environment, executor: Path, engine: str) -> Command:
    flags = {
        "monitor": request.monitor_address,
        "engine": engine,
        "project": request.project,
        "stack": request.stack,
        "pwd": request.pwd,
        "dry_run": "true" if request.dryRun else "false",
        "parallel": str(request.parallel),
        "root_directory": request.info.root_directory,
        "organization": request.organization,
    }
    return Command(
        argv=[
            str(environment.python),
            "-u",
            str(executor),
            *(word for name, value in flags.items() for word in (f"--{name}", value)),
            str(Path(request.info.program_directory, request.info.entry_point)),
            *request.args,
        ],
        cwd=request.pwd,
        env=environment.variables(
            {
                "PULUMI_CONFIG": json.dumps(dict(request.config)),
                "PULUMI_CONFIG_SECRET_KEYS": json.dumps(list(request.configSecretKeys)),
            }
        ),
    )


def _plugin(request: language.RunPluginRequest, environment: Environment) -> Command:
    folder = request.info.program_directory
    if request.kind == "analyzer":
        program = ["-m", "pulumi.policy", *request.args, folder]
    elif Path(folder, "__main__.py").exists():
        program = [folder, *request.args]
    else:
        program = ["-m", "pulumi.run.plugin", _distribution(Path(folder)), *request.args]
    given = dict(pair.split("=", 1) for pair in request.env)
    return Command([str(environment.python), "-u", *program], request.pwd, environment.variables(given))


def _distribution(folder: Path) -> str:
    """The name of the package in a folder, as its pyproject.toml gives it."""
    return str(tomllib.loads(Path(folder, "pyproject.toml").read_text())["project"]["name"])


def _installation(folder: Path, info: language.ProgramInfo) -> list[list[str]]:
    """Commands that create a project's environment, if it names one, and install its requirements."""
    named = MessageToDict(info.options).get("virtualenv")
    root = Path(info.root_directory, named) if named else Path(sys.prefix)
    commands = []
    if not Path(root, "bin", "python").exists():
        commands.append([sys.executable, "-m", "venv", str(root)])
    pip = [str(root / "bin" / "python"), "-m", "pip", "install"]
    if Path(folder, "requirements.txt").exists():
        commands.append([*pip, "-r", "requirements.txt"])
    elif Path(folder, "pyproject.toml").exists():
        commands.append([*pip, "-e", "."])
    return commands


def _ending(status: int) -> str:
    return f"signal {-status}" if status < 0 else f"exit status {status}"
