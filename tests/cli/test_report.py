"""`stampworks report` of a stack and of a file, with a stand-in for pulumi."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from stampworks.cli import exits, stacks
from stampworks.cli.main import main
from stampworks.plan import fingerprint
from stampworks.qualification import new_key, signed

from tests.operations.slurm.standin import StandIn
from tests.views.report.proven import certificate_of, plan_of
from tests.views.report.trained import a_run

PRIVATE, PUBLIC = new_key()
CERTIFICATE = certificate_of(plan_of(2), level="quick")
FILE = signed(CERTIFICATE, PRIVATE)


def resource(kind: str, name: str, created: str, modified: str, **outputs: Any) -> dict[str, Any]:
    urn = f"urn:pulumi:local::test::{kind}::{name}"
    return {"urn": urn, "type": kind, "created": created, "modified": modified, "outputs": outputs}


def state(*more: dict[str, Any]) -> str:
    first, second, third = (f"2026-11-21T18:5{minute}:07.25Z" for minute in (0, 1, 9))
    found = [
        {"urn": "urn:pulumi:local::test::pulumi:pulumi:Stack::test-local", "type": "pulumi:pulumi:Stack"},
        resource("stampworks:cluster:Cluster", "local", first, first),
        resource("stampworks:local:LocalRoom", "local", first, first),
        resource("stampworks:local:LocalGroup", "local-gpu", second, third),
        resource("stampworks:cluster:SigningKey", "local", first, first, publicKey=PUBLIC),
        *more,
    ]
    return json.dumps({"deployment": {"resources": found}})


def proof(certificate: str) -> dict[str, Any]:
    at = "2026-11-21T19:02:00Z"
    return resource("stampworks:cluster:Qualification", "local", at, at, certificate=certificate)


def test_report_of_a_stack(backend: Path, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The report contains the verified certificate, the plan, and the times from the backend."""
    plan = stacks.plan_of("local")
    certificate = dataclasses.replace(CERTIFICATE, fingerprint=fingerprint(plan))
    (backend / "local.json").write_text(state(proof(signed(certificate, PRIVATE))))
    assert main(["report", "--format", "json"]) == exits.FINE
    found = json.loads(capsys.readouterr().out)
    assert found["headline"]["signature"] == "pass"
    assert {"what": "pool cpu", "text": "1 x sim-cpu (simulated)"} in found["plan"]["lines"]
    assert found["timeline"]["stamping_known"]
    assert found["timeline"]["events"][:3] == [
        {"at": "2026-11-21T18:50:07Z", "what": "made: LocalRoom local, SigningKey local"},
        {"at": "2026-11-21T18:51:07Z", "what": "made: LocalGroup local-gpu"},
        {"at": "2026-11-21T18:59:07Z", "what": "changed: LocalGroup local-gpu"},
    ]


def test_earlier_proofs_come_from_the_backends_history(
    backend: Path, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Earlier proofs are those that the stack's own key has signed. Only a backend in a folder keeps them."""
    now = certificate_of(plan_of(2))
    (backend / "local.json").write_text(state(proof(signed(now, PRIVATE))))
    monkeypatch.setenv("PULUMI_BACKEND_URL", "s3://bucket")
    assert main(["report", "--format", "json"]) == exits.FINE
    why = "Earlier proofs are unknown: PULUMI_BACKEND_URL names no folder (file://) with earlier states. --earlier adds"
    assert json.loads(capsys.readouterr().out)["proofs"]["why"].startswith(why)

    history = tmp_path / "kept" / ".pulumi" / "history" / "test" / "local"
    history.mkdir(parents=True)
    monkeypatch.setenv("PULUMI_BACKEND_URL", f"file://{tmp_path / 'kept'}")
    before = dataclasses.replace(now, started="2026-11-20T19:00:00Z", ended="2026-11-20T19:01:00Z")
    foreign = dataclasses.replace(before, started="2026-11-19T19:00:00Z")
    kept = (signed(now, PRIVATE), signed(before, PRIVATE), signed(foreign, new_key()[0]), "no certificate")
    for number, text in enumerate(kept):
        latest = json.loads(state(proof(text)))["deployment"]
        (history / f"local-{number}.checkpoint.json").write_text(json.dumps({"checkpoint": {"latest": latest}}))
    (history / "local-9.checkpoint.json").write_text("{")
    assert main(["report", "--format", "json"]) == exits.FINE
    found = json.loads(capsys.readouterr().out)["proofs"]
    assert [row["started"] for row in found["rows"]] == [now.started, before.started]
    assert found["changes"]
    assert all(each["then"] == each["now"] for each in found["changes"])


def test_earlier_proofs_from_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No stack is needed. Certificates of another cluster are refused if a key shows it."""
    before = dataclasses.replace(CERTIFICATE, started="2026-11-20T19:00:00Z")
    for name, text in (("now", FILE), ("then", signed(before, PRIVATE)), ("other", signed(before, new_key()[0]))):
        (tmp_path / name).write_text(text)
    (tmp_path / "key").write_text(PUBLIC)
    now, then, other, key = (str(tmp_path / name) for name in ("now", "then", "other", "key"))
    assert main(["report", now, "--earlier", then, "--format", "markdown"]) == exits.FINE
    assert "| 2026-11-20T19:00:00Z | pass | quick |" in capsys.readouterr().out
    assert main(["report", now, "--earlier", other, "--key", key]) == exits.WRONG_INPUT
    assert f"{other}: it is signed by key " in capsys.readouterr().err


def test_report_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A file needs no project and no Pulumi; its key identifies the signer."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/nowhere")
    Path("cert.json").write_text(FILE)
    Path("key.pem").write_text(PUBLIC)
    assert main(["report", "cert.json", "-o", "report.html"]) == exits.FINE
    assert Path("report.html").read_text().startswith("<!DOCTYPE html>\n<html")
    assert main(["report", "cert.json", "--format", "markdown"]) == exits.FINE
    said = capsys.readouterr().out
    assert said.startswith("# Cluster acceptance on local: pass\n")
    assert "- Signature: unknown: no key was given" in said
    assert main(["report", "cert.json", "--format", "markdown", "--key", "key.pem"]) == exits.FINE
    assert "- Signature: pass: signed by key " in capsys.readouterr().out


def test_a_report_of_a_failure_is_a_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The report is written for any verdict, including a forged certificate."""
    (tmp_path / "cert.json").write_text(FILE.replace("gpu-001", "gpu-009"))
    (tmp_path / "key.pem").write_text(PUBLIC)
    files = [str(tmp_path / "cert.json"), "--key", str(tmp_path / "key.pem")]
    assert main(["report", *files, "--format", "markdown"]) == exits.FINE
    said = capsys.readouterr().out
    assert said.startswith("# Cluster acceptance on local: fail\n")
    assert "- Signature: fail: it was changed after it was signed\n" in said
    assert "- The signature is wrong: it was changed after it was signed. The contents of the file follow, " in said


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        (state(), exits.NO, "stack 'local' has no certificate\n  hint: pulumi up -s local ends with a proof, unless "),
        (state(proof("{}")), exits.WRONG_INPUT, "stack 'local': it is not a certificate: KeyError: 'certificate'\n"),
        (
            "[]",
            exits.UNKNOWN,
            "cannot read the certificate of stack 'local': the output of pulumi stack export is not ",
        ),
        (None, exits.NO, "stack 'local' has no certificate\n"),
    ],
)
def test_a_stack_without_a_certificate(
    text: str | None, code: int, said: str, backend: Path, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error says why there is no report, and what to do."""
    if text is not None:
        (backend / "local.json").write_text(text)
    assert main(["report"]) == code
    assert said in capsys.readouterr().err


def test_invalid_certificates(tmp_path: Path, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Refused are a foreign file, a plan, and two sources at once."""
    (tmp_path / "x.json").write_bytes(b"\xff")
    assert main(["report", str(tmp_path / "x.json")]) == exits.WRONG_INPUT
    assert (
        "x.json: it is no text: invalid start byte\n  hint: pulumi stack output certificate" in capsys.readouterr().err
    )
    assert main(["report", "-s", "plan.json"]) == exits.WRONG_INPUT
    assert capsys.readouterr().err.startswith("plan.json is a plan, and a report needs a proof\n  hint: name a ")
    assert main(["report", "-s", "other", "cert.json"]) == exits.WRONG_INPUT
    assert "not allowed with argument" in capsys.readouterr().err


def test_report_of_a_run_from_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An invalid record is refused, because the user asked for it."""
    monkeypatch.chdir(tmp_path)
    Path("cert.json").write_text(FILE)
    Path("record.json").write_text(json.dumps(a_run()))
    assert main(["report", "cert.json", "--record", "record.json", "--format", "markdown"]) == exits.FINE
    assert "### Run demo\n" in capsys.readouterr().out
    Path("record.json").write_text('{"version": 2}')
    assert main(["report", "cert.json", "--record", "record.json"]) == exits.WRONG_INPUT
    assert capsys.readouterr().err == (
        "record.json: Its record cannot be shown: it is of version 2, and this release reads version 1: a newer release"
        " of Stampworks may read it\n  hint: a run leaves one as runs/NAME/record.json in the directory that all nodes"
        " share\n"
    )
    assert main(["report", "cert.json", "--run", "demo"]) == exits.WRONG_INPUT
    assert "--run needs a cluster, and a certificate's file does not lead to one" in capsys.readouterr().err


def test_report_of_the_runs_of_a_cluster(
    backend: Path, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The report covers all runs or a single run. An unreachable cluster prevents the report only if a run was
    requested."""
    (backend / "local.json").write_text(state(proof(FILE)))
    assert main(["report", "--format", "markdown"]) == exits.FINE
    assert "Training runs are unknown: cluster local is not running." in capsys.readouterr().out
    assert main(["report", "--run", "demo"]) == exits.WRONG_INPUT
    assert capsys.readouterr().err.startswith("cluster local is not running\n")

    (tmp_path / "standin").mkdir()
    cluster = StandIn(tmp_path / "standin")
    monkeypatch.setattr("stampworks.operations.members", lambda *_: cluster.roster)
    with (project / "stacks" / "Pulumi.local.yaml").open("a") as file:
        file.write("    storage:\n      - {name: shared, kind: directory, mount: /shared}\n")
    answer = {"names": ["demo", "torn"], "told": {"demo": {"text": json.dumps(a_run())}, "torn": {"text": "{"}}}
    cluster.program("python3", f"#!/bin/sh\ncat {tmp_path}/answer\n")
    (tmp_path / "answer").write_text(json.dumps(answer))
    assert main(["report", "--format", "json"]) == exits.FINE
    training = json.loads(capsys.readouterr().out)["training"]
    assert [(run["name"], run["record"] is None) for run in training["runs"]] == [("demo", False), ("torn", True)]
    assert training["runs"][1]["why"].startswith("Its record cannot be shown: it is not JSON: ")
    assert main(["report", "--run", "dem"]) == exits.WRONG_INPUT
    assert "no run of cluster local is called 'dem'\n  hint: did you mean demo?" in capsys.readouterr().err
