"""View of the language host on the Python environment that a project names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools.language_host.environments import Environment, EnvironmentMissingError


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    """A minimal virtual environment: two packages, one of which requires the other and a plugin."""
    packages = tmp_path / "env" / "lib" / "python3.12" / "site-packages"
    for name, version, requires in (("Under_Score", "1.0", ""), ("top", "2.0", "Requires-Dist: under-score<2,>=1\n")):
        folder = packages / f"{name}-{version}.dist-info"
        folder.mkdir(parents=True)
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requires}")
    for name, described in (("top", {"resource": True, "name": "cloud", "version": "7.1.0"}), ("other", {})):
        (packages / name).mkdir()
        (packages / name / "pulumi-plugin.json").write_text(json.dumps(described))
    (tmp_path / "env" / "bin").mkdir()
    (tmp_path / "env" / "bin" / "python").touch()
    (tmp_path / "env" / "pyvenv.cfg").write_text("home = /usr/bin\nversion_info = 3.12.5\n")
    return Environment.of(str(tmp_path), {"virtualenv": "env"})


def test_it_is_found_beside_the_project_file(environment: Environment, tmp_path: Path) -> None:
    assert environment == Environment(python=tmp_path / "env" / "bin" / "python", root=tmp_path / "env")
    assert environment.python_version() == "3.12.5"


def test_one_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentMissingError, match="has no bin/python: 'pulumi install' makes it"):
        Environment.of(str(tmp_path), {"virtualenv": "env"})


def test_packages_are_listed_with_and_without_those_that_others_ask_for(environment: Environment) -> None:
    assert environment.distributions(transitive=True) == [("Under_Score", "1.0"), ("top", "2.0")]
    assert environment.distributions(transitive=False) == [("top", "2.0")]


def test_only_packages_with_a_provider_need_a_plugin(environment: Environment) -> None:
    assert [plugin["name"] for plugin in environment.pulumi_plugins()] == ["cloud"]


def test_a_program_finds_itself_in_an_activated_environment(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin")
    monkeypatch.setenv("PYTHONHOME", "/elsewhere")
    variables = environment.variables({"PULUMI_CONFIG": "{}"})
    assert variables["PATH"] == f"{environment.root}/bin:/usr/bin"
    assert variables["VIRTUAL_ENV"] == str(environment.root)
    assert variables["PULUMI_CONFIG"] == "{}"
    assert "PYTHONHOME" not in variables
