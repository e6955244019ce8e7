"""Trackers get the progress of a run, and training never waits for them."""

from __future__ import annotations

import http.server
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from training import trackers
from training.settings import Tracking
from training.trackers import Point, RefusedError, Tracker, TrackerError, tracker

from tests.project import wait_for

LIMIT_S = 300.0  # MLflow's server takes a minute to start on a machine that is busy


class Heard:
    """A sink that records its calls; while `fails` is set, each call fails."""

    def __init__(self) -> None:
        self.heard: list[Any] = []
        self.fails: Exception | None = None
        self.open = threading.Event()
        self.open.set()

    def _hear(self, *what: Any) -> None:
        self.open.wait(LIMIT_S)
        if self.fails:
            raise self.fails
        self.heard.append(what)

    def start(self, name: str, settings: Mapping[str, Any]) -> None:
        self._hear("start", name, dict(settings))

    def steps(self, points: Sequence[Point]) -> None:
        self._hear("steps", [each.step for each in points])

    def artifact(self, path: Path) -> None:
        self._hear("artifact", path)

    def end(self, status: str) -> None:
        self._hear("end", status)

    @property
    def steps_heard(self) -> list[int]:
        return [step for what, *rest in self.heard if what == "steps" for step in rest[0]]


def test_everything_is_passed_on_in_order(tmp_path: Path) -> None:
    """Settings of a run, its steps, its files, its end; and no notice."""
    sink = Heard()
    told = Tracker(sink, "test")
    told.start("run", {"url": "http://me:secret@host"})
    for step in range(1, 1001):
        told.step(step, {"loss": 1.0})
    told.artifact(tmp_path / "record.json")
    told.end("finished", LIMIT_S)
    assert sink.heard[0] == ("start", "run", {"url": "http://...@host"})
    assert sink.steps_heard == list(range(1, 1001))
    assert sink.heard[-2:] == [("artifact", tmp_path / "record.json"), ("end", "finished")]
    assert told.said() == []


def test_a_tracker_that_hangs_is_not_waited_for() -> None:
    """Even the end does not wait, and unsent values are counted."""
    sink = Heard()
    sink.open.clear()
    told = Tracker(sink, "test", room=50)
    told.start("run", {})
    for step in range(1, 101):
        told.step(step, {})
    told.end("finished", 0.01)
    assert told.said() == ["tracking: test was not told of 100 steps"]
    sink.open.set()


def test_a_tracker_that_comes_back_is_told_what_was_kept() -> None:
    """The outage is reported once; dropped old steps are counted."""
    sink = Heard()
    sink.fails = TrackerError("http://host does not answer: Connection refused")
    told = Tracker(sink, "test", rest_s=0.01, room=50)
    told.start("run", {})
    for step in range(1, 101):
        told.step(step, {})
    wait_for(lambda: told._said, LIMIT_S)
    time.sleep(0.1)
    assert told.said() == ["tracking: test: http://host does not answer: Connection refused; training goes on"]
    sink.fails = None
    wait_for(lambda: sink.steps_heard, LIMIT_S)
    told.end("finished", LIMIT_S)
    assert sink.steps_heard == list(range(51, 101))
    assert told.said() == ["tracking: test was not told of 50 steps"]


def test_interrupted_delivery_is_repeated() -> None:
    """The order stays the same."""
    sink = Heard()
    told = Tracker(sink, "test", rest_s=0.01)
    told.start("run", {})
    wait_for(lambda: sink.heard, LIMIT_S)
    sink.fails = OSError("broken pipe")
    for step in range(1, 301):
        told.step(step, {})
    time.sleep(0.05)
    sink.fails = None
    told.end("failed", LIMIT_S)
    assert sink.steps_heard == list(range(1, 301))
    assert sink.heard[-1] == ("end", "failed")
    assert told.said() == ["tracking: test: OSError: broken pipe; training goes on"]


def test_refused_values_are_not_retried() -> None:
    """Steps refused by a tracker do not delay others; a refused run ends its work."""
    sink = Heard()
    told = Tracker(sink, "test", rest_s=LIMIT_S)
    told.start("run", {})
    wait_for(lambda: sink.heard, LIMIT_S)
    sink.fails = RefusedError("400 what is this")
    told.step(1, {})
    wait_for(lambda: told._dropped, LIMIT_S)
    sink.fails = None
    told.step(2, {})
    told.end("finished", LIMIT_S)
    assert sink.steps_heard == [2]
    assert told.said() == [
        "tracking: test: 400 what is this; training goes on", "tracking: test was not told of 1 steps",
    ]  # fmt: skip


def test_lines_in_a_file(tmp_path: Path) -> None:
    """The file may end in a torn line; values that are not finite are left out."""
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1, "at": 1, "lo')
    told = tracker(Tracking("files"), tmp_path)
    told.start("run", {})
    told.step(1, {"loss": 5.5, "norm": float("nan")})
    told.step(2, {"loss": 5.25})
    told.end("finished", LIMIT_S)
    assert told.said() == []
    torn, *lines = path.read_text().splitlines()
    assert torn == '{"step": 1, "at": 1, "lo'
    assert [{**json.loads(line), "at": 0} for line in lines] == [
        {"step": 1, "at": 0, "loss": 5.5}, {"step": 2, "at": 0, "loss": 5.25},
    ]  # fmt: skip


def test_a_full_disk_ends_no_run(tmp_path: Path) -> None:
    """A notice names the file and the reason."""
    (tmp_path / "metrics.jsonl").symlink_to("/dev/full")
    told = tracker(Tracking("files"), tmp_path)
    told.start("run", {})
    told.step(1, {"loss": 5.5})
    told.end("finished", LIMIT_S)
    assert told.said() == [
        f"tracking: files: {tmp_path}/metrics.jsonl: No space left on device; training goes on",
        "tracking: files was not told of 1 steps",
    ]


def test_silent_tracker_does_not_stop_training(tmp_path: Path) -> None:
    """The message shows the address without credentials, and training continues."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    told = tracker(Tracking("mlflow", f"http://me:secret@127.0.0.1:{port}"), tmp_path)
    told.start("run", {})
    told.step(1, {"loss": 5.5})
    told.end("finished", LIMIT_S)
    assert told.said() == [
        f"tracking: mlflow: http://127.0.0.1:{port} does not answer: Connection refused; training goes on",
        "tracking: mlflow was not told of 1 steps",
    ]


@pytest.mark.parametrize("url", ["", "host:5000", "file:///etc/passwd"])
def test_an_address_of_no_server_is_refused(tmp_path: Path, url: str) -> None:
    """The error shows a valid address."""
    told = tracker(Tracking("mlflow", url), tmp_path)
    told.start("run", {})
    told.end("finished", LIMIT_S)
    assert told.said() == [
        f"tracking: mlflow: tracking.url: {url!r} is no address of a server: write http://HOST:PORT; training goes on"
    ]


class Strange(http.server.BaseHTTPRequestHandler):
    """A server other than MLflow, which records the authorization header."""

    heard: list[str]
    answer: tuple[int, dict[str, str], bytes]

    def do_GET(self) -> None:
        self.heard.append(self.headers.get("Authorization", ""))
        code, headers, content = self.answer
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    do_POST = do_GET  # noqa: N815

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def strange() -> Iterator[Any]:
    """The class of a server that runs, and its port."""
    kind = type("Kind", (Strange,), {"heard": [], "answer": (200, {}, b"")})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), kind)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield kind, server.server_port
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((200, {}, b"<html>"), "does not answer as MLflow does: "),
        ((401, {}, b"no tok-3n here"), "401 Unauthorized: no ... here"),
        ((302, {"Location": "http://127.0.0.1:1/"}, b""), "302 Found"),
        ((503, {}, b"busy"), "503 Service Unavailable: busy"),
    ],
)
def test_a_server_may_be_another(
    tmp_path: Path, strange: Any, monkeypatch: pytest.MonkeyPatch, answer: Any, said: str
) -> None:
    """Redirects are not followed, its texts are shortened, and no secret is shown."""
    kind, port = strange
    kind.answer = answer
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "tok-3n")
    told = tracker(Tracking("mlflow", f"http://127.0.0.1:{port}/"), tmp_path)
    told.start("run", {})
    told.end("finished", LIMIT_S)
    [line] = told.said()
    assert line.startswith(f"tracking: mlflow: http://127.0.0.1:{port}")
    assert said in line
    assert "tok-3n" not in line
    assert set(kind.heard) == {"Bearer tok-3n"}


def test_a_user_in_an_address_is_sent_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A token has precedence."""
    monkeypatch.delenv("MLFLOW_TRACKING_TOKEN", raising=False)
    assert trackers._address("http://me:p%40ss@host:1/x") == (
        "http://host:1/x", {"Authorization": "Basic bWU6cEBzcw=="},
    )  # fmt: skip


@pytest.fixture(scope="module")
def mlflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a private MLflow server."""
    folder = tmp_path_factory.mktemp("mlflow")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    command += ["--backend-store-uri", f"sqlite:///{folder}/runs.db", "--artifacts-destination", f"{folder}/files"]
    quiet = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    log = (folder / "log").open("wb")
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=os.environ | quiet,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,  # workers of the server end with it
    )
    try:
        url = f"http://127.0.0.1:{port}"
        wait_for(lambda: process.poll() is not None or _answers(url), LIMIT_S)
        assert process.poll() is None, (folder / "log").read_text()
        yield url
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        log.close()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=1) as answer:  # noqa: S310
            return bool(answer.status == 200)
    except OSError:
        return False


def asked(url: str, what: str, **words: Any) -> Any:
    place = f"{url}/api/2.0/mlflow/{what}?{urllib.parse.urlencode(words)}"
    with urllib.request.urlopen(place, timeout=LIMIT_S) as answer:  # noqa: S310
        return json.loads(answer.read())


@pytest.mark.long
def test_a_run_on_a_server(tmp_path: Path, mlflow: str) -> None:
    """Settings, every step, a file and the end are sent; the next attempt continues the same run."""
    record = tmp_path / "record.json"
    record.write_text("{}\n")
    for attempt, status in ((1, "preempted"), (2, "finished")):
        told = tracker(Tracking("mlflow", mlflow, "tried"), tmp_path)
        told.start("a run", {"name": "a run", "model": {"layers": 2}, "url": "http://me:secret@x", "attempt": attempt})
        for step in range(attempt * 500, attempt * 500 + 500):
            told.step(step, {"loss": 1 / step, "tokens_per_s": 100.0})
        told.artifact(record)
        told.end(status, LIMIT_S)
        assert told.said() == []
        run = json.loads((tmp_path / "mlflow.json").read_text())["run_id"]
        found = asked(mlflow, "runs/get", run_id=run)["run"]
        assert found["info"]["status"] == {"preempted": "SCHEDULED", "finished": "FINISHED"}[status]
    params = {each["key"]: each["value"] for each in found["data"]["params"]}
    assert params == {"name": "a run", "model.layers": "2", "url": "http://...@x", "attempt": "1"}
    history = asked(mlflow, "metrics/get-history", run_id=run, metric_key="loss", max_results=2000)["metrics"]
    assert sorted(int(each["step"]) for each in history) == list(range(500, 1500))
    [file] = asked(mlflow, "artifacts/list", run_id=run)["files"]
    assert (file["path"], file["file_size"]) == ("record.json", 3)


def test_weights_and_biases_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Into the run's folder, without a key and without a network."""
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    told = tracker(Tracking("wandb"), tmp_path)
    told.start("run", {"model": {"layers": 2}})
    for step in (1, 2, 3, 2, 3):
        told.step(step, {"loss": 1 / step})
    told.end("finished", LIMIT_S)
    assert told.said() == []
    assert list(tmp_path.glob("wandb/offline-run-*/*.wandb"))


def test_weights_and_biases_may_not_be_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A notice names the node and the remedy; the run continues."""
    monkeypatch.setitem(sys.modules, "wandb", None)
    told = tracker(Tracking("wandb"), tmp_path)
    told.start("run", {})
    told.step(1, {"loss": 1.0})
    told.end("finished", LIMIT_S)
    assert told.said() == [
        f"tracking: wandb: tracking.kind: {os.uname().nodename} has no Python package wandb: install it there (in the"
        " image, or by a role of your own), or choose another tracker; training goes on",
        "tracking: wandb was not told of 1 steps",
    ]
