"""Trackers of a run's progress: lines in a file, an MLflow server, or Weights & Biases.

The coordinator calls a Tracker, which never makes it wait: a separate thread sends the values. A silent server is
retried; meanwhile steps are queued, and if there are too many, the oldest are dropped and counted. `said()` has
messages for users: a silent tracker is reported once. MLflow is used over its REST interface, so that a node needs no
package for it. Secrets come from the environment (MLFLOW_TRACKING_TOKEN, MLFLOW_TRACKING_USERNAME and
MLFLOW_TRACKING_PASSWORD, WANDB_API_KEY) and are in no message.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import http.client
import json
import math
import os
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from stampworks_train.words import without_secrets
from validation.result import plain

from .settings import Tracking

ROOM = 10_000
"""Steps that are kept for a tracker that does not answer."""
BATCH = 100
"""Steps sent at once: MLflow accepts 1,000 metrics in a call."""
REST_S = 30.0
"""Seconds until a tracker that did not answer is asked again."""
ANSWER_S = 10.0
"""Seconds that a server has to answer."""
ANSWER_MAX = 2**20
SECRETS = ("MLFLOW_TRACKING_TOKEN", "MLFLOW_TRACKING_PASSWORD", "WANDB_API_KEY")


class TrackerError(Exception):
    """A tracker that cannot be reached now: a retry may help."""


class RefusedError(TrackerError):
    """A tracker refuses a value now and later."""


@dataclass(frozen=True)
class Point:
    """Values of a step."""

    step: int
    at: float
    values: Mapping[str, float]


class Sink(Protocol):
    """The target of a tracker. Every call may take long, and may raise TrackerError."""

    def start(self, name: str, settings: Mapping[str, Any]) -> None:
        """Open the run at the tracker, or continue it. Raise RefusedError if that can never succeed."""

    def steps(self, points: Sequence[Point]) -> None:
        """Send the values of some steps."""

    def artifact(self, path: Path) -> None:
        """Send a file."""

    def end(self, status: str) -> None:
        """Close the run at the tracker with its status."""


def tracker(wanted: Tracking, folder: Path) -> Tracker:
    """Return the requested tracker for the run in this folder; none of its methods waits or fails."""
    kinds: dict[str, Callable[[Tracking, Path], Sink]] = {"files": Files, "mlflow": MLflow, "wandb": WandB}
    return Tracker(kinds[wanted.kind](wanted, folder), wanted.kind)


class Tracker:
    """Values of a run, queued by one thread and sent by another, which ends with the process at the latest."""

    def __init__(self, sink: Sink, kind: str, rest_s: float = REST_S, room: int = ROOM) -> None:
        self._sink = sink
        self._kind = kind
        self._rest_s = rest_s
        self._changed = threading.Condition()
        self._begin: tuple[str, Mapping[str, Any]] | None = None
        self._points = deque[Point]()
        self._room = room
        self._artifacts = deque[Path]()
        self._status = ""
        self._closing = False
        self._begun = False
        self._complained = False
        self._dropped = 0
        self._said: list[str] = []
        self._thread = threading.Thread(target=self._run, name="tracker", daemon=True)
        self._thread.start()

    def start(self, name: str, settings: Mapping[str, Any]) -> None:
        """Queue the beginning of the run, without secrets."""
        with self._changed:
            self._begin = (name, without_secrets(settings))
            self._changed.notify()

    def step(self, step: int, values: Mapping[str, float]) -> None:
        """Send the finite numbers of a step: not every tracker knows others."""
        known = {name: float(value) for name, value in values.items() if math.isfinite(value)}
        with self._changed:
            self._points.append(Point(step, time.time(), known))
            self._bound()
            self._changed.notify()

    def artifact(self, path: Path) -> None:
        """A file, which must still be there when it is passed on."""
        with self._changed:
            self._artifacts.append(path)
            self._changed.notify()

    def end(self, status: str, within_s: float = ANSWER_S) -> None:
        """The run is finished, preempted or failed. This alone waits, for so long at most, until all is passed on."""
        with self._changed:
            self._status, self._closing = status, True
            self._changed.notify()
        self._thread.join(within_s)
        with self._changed:
            if left := self._dropped + len(self._points):
                self._said.append(f"tracking: {self._kind} was not told of {left} steps")
                self._dropped = 0
                self._points.clear()

    def said(self) -> list[str]:
        """Return notices for people, each once."""
        with self._changed:
            said, self._said = self._said, []
        return said

    def _bound(self) -> None:
        while len(self._points) > self._room:
            self._points.popleft()
            self._dropped += 1

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(self._has_work)
                closing = self._closing
            try:
                self._pass_on(closing)
            except RefusedError as error:  # the whole run
                self._complain(error)
                return
            except Exception as error:  # training continues after any error of a tracker
                self._complain(error)
                if not closing:
                    with self._changed:
                        self._changed.wait_for(lambda: self._closing, self._rest_s)
                    continue
            if closing:
                return

    def _has_work(self) -> bool:
        return self._closing or (self._begin is not None and bool(self._points or self._artifacts or not self._begun))

    def _pass_on(self, closing: bool) -> None:
        """Send queued values. Raise errors that end the tracker; leave out values that it refuses."""
        if self._begin is None:
            return
        if not self._begun:
            self._sink.start(*self._begin)
            self._begun = True
        while points := self._taken():
            try:
                self._sink.steps(points)
            except RefusedError as error:
                self._complain(error)
                self._dropped += len(points)
            except Exception:
                with self._changed:
                    self._points.extendleft(reversed(points))
                    self._bound()
                raise
        while self._artifacts:
            try:
                self._sink.artifact(self._artifacts.popleft())
            except RefusedError as error:
                self._complain(error)
        if closing:
            self._sink.end(self._status)

    def _taken(self) -> list[Point]:
        with self._changed:
            return [self._points.popleft() for _ in range(min(BATCH, len(self._points)))]

    def _complain(self, error: Exception) -> None:
        if self._complained:
            return
        self._complained = True
        why = str(error) if isinstance(error, TrackerError) else f"{type(error).__name__}: {error}"
        with self._changed:
            self._said.append(plain(f"tracking: {self._kind}: {_without_own_secrets(why)}; training goes on"))


def _without_own_secrets(text: str) -> str:
    for name in SECRETS:
        if secret := os.environ.get(name):
            text = text.replace(secret, "...")
    cleaned: str = without_secrets(text)
    return cleaned


class Files:
    """`metrics.jsonl` in the run's folder. Repeated steps appear again; the last line counts."""

    def __init__(self, wanted: Tracking, folder: Path) -> None:  # noqa: ARG002 (as every sink)
        self.path = folder / "metrics.jsonl"

    def start(self, name: str, settings: Mapping[str, Any]) -> None:  # noqa: ARG002 (the folder has both)
        """End a last line that a killed run left torn."""
        with self._open() as file:
            if file.tell():  # the last line of one that was killed may be torn
                file.write(b"\n")

    def steps(self, points: Sequence[Point]) -> None:
        """Append a line of JSON for each step."""
        lines = (json.dumps({"step": each.step, "at": each.at, **each.values}) + "\n" for each in points)
        with self._open() as file:
            file.write("".join(lines).encode())

    def artifact(self, path: Path) -> None:
        """Do nothing: the file is already in the folder."""

    def end(self, status: str) -> None:
        """The run's folder names another server."""

    @contextlib.contextmanager
    def _open(self) -> Iterator[Any]:
        try:
            with self.path.open("ab") as file:
                yield file
        except OSError as error:
            raise TrackerError(f"{self.path}: {error.strerror}") from None


class MLflow:
    """A run on an MLflow server, which later attempts of the job continue."""

    STATUS: Mapping[str, str] = {"finished": "FINISHED", "preempted": "SCHEDULED"}

    def __init__(self, wanted: Tracking, folder: Path) -> None:
        self.url = wanted.url.rstrip("/")
        self.experiment = wanted.experiment
        self.note = folder / "mlflow.json"
        self.run = ""
        self.artifacts = ""

    def start(self, name: str, settings: Mapping[str, Any]) -> None:
        """Create the run on the server, or continue the one noted in the folder."""
        if urllib.parse.urlsplit(self.url).scheme not in ("http", "https"):
            raise RefusedError(f"tracking.url: {self.url!r} is no address of a server: write http://HOST:PORT")
        run = self._noted()
        if run is None and not self.run:
            told = {"experiment_id": self._experiment(), "run_name": name, "start_time": _now()}
            run = self._ask("runs/create", told)["run"]["info"]
        if run:
            self.run, self.artifacts = str(run["run_id"]), str(run.get("artifact_uri", ""))
        self._note()
        params = [{"key": key, "value": value[:6000]} for key, value in _flat(settings)]
        for start in range(0, len(params), BATCH):
            with contextlib.suppress(RefusedError):  # keep the value that an earlier attempt has set
                self._ask("runs/log-batch", {"run_id": self.run, "params": params[start : start + BATCH]})

    def steps(self, points: Sequence[Point]) -> None:
        """Send the values, 1000 in a request."""
        metrics = [
            {"key": name, "value": value, "timestamp": round(point.at * 1000), "step": point.step}
            for point in points
            for name, value in point.values.items()
        ]
        for start in range(0, len(metrics), 1000):
            self._ask("runs/log-batch", {"run_id": self.run, "metrics": metrics[start : start + 1000]})

    def artifact(self, path: Path) -> None:
        """Send a file through the server, if it stores files; otherwise the file stays in the run's folder only."""
        place = urllib.parse.urlsplit(self.artifacts)
        if place.scheme != "mlflow-artifacts":
            raise RefusedError(
                f"the server takes no files, it keeps them at {self.artifacts}: {path} stays where it is"
            )
        try:
            content = path.read_bytes()
        except OSError as error:
            raise RefusedError(f"{path}: {error.strerror}") from None
        target = urllib.parse.quote(f"{place.path.strip('/')}/{path.name}")
        self._send("PUT", f"mlflow-artifacts/artifacts/{target}", content, {})

    def end(self, status: str) -> None:
        """Set the run's status on the server."""
        self._ask("runs/update", {"run_id": self.run, "status": self.STATUS.get(status, "FAILED"), "end_time": _now()})

    def _noted(self) -> Mapping[str, Any] | None:
        """The run of an earlier attempt, if the server still has it."""
        try:
            noted = json.loads(self.note.read_text())
            if noted["url"] != without_secrets(self.url):
                return None
            told = {"run_id": str(noted["run_id"]), "status": "RUNNING"}
            info: Mapping[str, Any] = self._ask("runs/update", told)["run_info"]
        except (OSError, ValueError, KeyError, TypeError, RefusedError):
            return None
        return info

    def _note(self) -> None:
        draft = self.note.with_suffix(".draft")
        try:
            draft.write_text(json.dumps({"url": without_secrets(self.url), "run_id": self.run}) + "\n")
            draft.replace(self.note)
        except OSError as error:
            raise TrackerError(f"{self.note}: {error.strerror}") from None

    def _experiment(self) -> str:
        name = {"experiment_name": self.experiment}
        try:
            return str(self._ask("experiments/get-by-name", name, "GET")["experiment"]["experiment_id"])
        except RefusedError:  # no experiment has this name, unless another process is creating it
            return str(self._ask("experiments/create", {"name": self.experiment})["experiment_id"])

    def _ask(self, what: str, told: Mapping[str, Any], method: str = "POST") -> Any:
        if method == "GET":
            return self._send(method, f"mlflow/{what}?{urllib.parse.urlencode(told)}", None, {})
        return self._send(method, f"mlflow/{what}", json.dumps(told).encode(), {"Content-Type": "application/json"})

    def _send(self, method: str, what: str, content: Any, headers: Mapping[str, str]) -> Any:
        url, authorization = _address(self.url)
        request = urllib.request.Request(  # noqa: S310 (the scheme was looked at)
            f"{url}/api/2.0/{what}", content, {**headers, **authorization}, method=method
        )
        try:
            with _OPENER.open(request, timeout=ANSWER_S) as answer:
                return json.loads(answer.read(ANSWER_MAX) or b"{}")
        except urllib.error.HTTPError as error:
            with error:
                said = error.read(500).decode(errors="replace")
            kind = RefusedError if 300 <= error.code < 500 and error.code not in (408, 429) else TrackerError
            raise kind(f"{url}: {error.code} {error.reason}: {said}") from None
        except urllib.error.URLError as error:
            reason = getattr(error.reason, "strerror", None) or error.reason
            raise TrackerError(f"{url} does not answer: {reason}") from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise TrackerError(f"{url} does not answer as MLflow does: {error}") from None


class _Stay(urllib.request.HTTPRedirectHandler):
    """Refuse redirects: credentials are for this server only."""

    def redirect_request(self, *_: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(_Stay)


def _address(url: str) -> tuple[str, dict[str, str]]:
    """Return the address without its user, and the headers that authorize."""
    parts = urllib.parse.urlsplit(url)
    user = urllib.parse.unquote(parts.username or "") or os.environ.get("MLFLOW_TRACKING_USERNAME", "")
    password = urllib.parse.unquote(parts.password or "") or os.environ.get("MLFLOW_TRACKING_PASSWORD", "")
    bare = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    if token := os.environ.get("MLFLOW_TRACKING_TOKEN"):
        return bare, {"Authorization": f"Bearer {token}"}
    if user:
        return bare, {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}
    return bare, {}


class WandB:
    """A run of Weights & Biases: offline, in the run's folder, without a key, or as WANDB_MODE says."""

    def __init__(self, wanted: Tracking, folder: Path) -> None:
        self.wanted = wanted
        self.folder = folder
        self.run: Any = None

    def start(self, name: str, settings: Mapping[str, Any]) -> None:
        """Open the run; offline without WANDB_API_KEY. Raise RefusedError without the package."""
        try:
            import wandb
        except ImportError:
            raise RefusedError(
                f"tracking.kind: {os.uname().nodename} has no Python package wandb: install it there (in the image, or"
                " by a role of your own), or choose another tracker"
            ) from None
        mode = os.environ.get("WANDB_MODE") or ("online" if os.environ.get("WANDB_API_KEY") else "offline")
        own = {"base_url": self.wanted.url} if self.wanted.url else {}
        self.run = wandb.init(
            project=self.wanted.experiment,
            name=name,
            id=hashlib.sha256(str(self.folder).encode()).hexdigest()[:16],
            resume="allow",
            dir=str(self.folder),
            config=dict(settings),
            mode=mode,
            settings=wandb.Settings(console="off", silent=True, init_timeout=ANSWER_S, **own),
        )
        self.run.define_metric("*", step_metric="step")  # W&B's own step must not decrease; ours may, after a restart

    def steps(self, points: Sequence[Point]) -> None:
        """Hand the values to the package, which sends them itself."""
        for point in points:
            self.run.log({"step": point.step, **point.values})

    def artifact(self, path: Path) -> None:
        """Hand the file to the package, which sends it itself."""
        self.run.save(str(path), base_path=str(path.parent), policy="now")

    def end(self, status: str) -> None:
        """Close the run; the package waits for its uploads."""
        self.run.finish(exit_code=0 if status in ("finished", "preempted") else 1)


def _flat(told: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    for name, value in told.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield before + str(name), str(value)


def _now() -> int:
    return round(time.time() * 1000)
