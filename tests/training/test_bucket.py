"""Checkpoints in a bucket, of a server that answers as S3 does."""

from __future__ import annotations

import functools
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from stampworks_train import objects
from stampworks_train.bucket import BucketCheckpoints
from stampworks_train.manifest import MANIFEST, CheckpointError
from stampworks_train.objects import Objects

from tests.training import test_session
from tests.training.ranks import Trained, alone, begun, together

ROOT = Path(__file__).resolve().parents[2]
BUCKET = "s3://runs/mine"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """moto is in the environment of all other tests."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [str(ROOT / ".venv" / "bin" / "python"), "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
        process.kill()


@pytest.fixture
def s3(server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """An empty bucket `runs`, and its address for programs."""
    told = {"ACCESS_KEY_ID": "me", "SECRET_ACCESS_KEY": "geheim", "DEFAULT_REGION": "us-east-1"}
    for name, value in (told | {"ENDPOINT_URL_S3": server}).items():
        monkeypatch.setenv(f"AWS_{name}", value)
    client = boto3.client("s3")
    client.create_bucket(Bucket="runs")
    yield client
    for each in client.list_objects_v2(Bucket="runs").get("Contents", ()):
        client.delete_object(Bucket="runs", Key=each["Key"])
    for each in client.list_multipart_uploads(Bucket="runs").get("Uploads", ()):
        client.abort_multipart_upload(Bucket="runs", Key=each["Key"], UploadId=each["UploadId"])
    client.delete_bucket(Bucket="runs")


def keys(s3: Any) -> list[str]:
    return [each["Key"] for each in s3.list_objects_v2(Bucket="runs").get("Contents", ())]


def names(s3: Any) -> list[str]:
    """The checkpoints that count."""
    return [key.split("/")[1] for key in keys(s3) if key.endswith(MANIFEST)]


def saved(rank: int, world: int, steps: tuple[int, ...], keep: int = 3) -> tuple[str, str | None]:
    """Return the digest of the last saved state, and errors."""
    trained = Trained(world)
    checkpoints = BucketCheckpoints(BUCKET, keep, rank, world, "model")
    for step in steps:
        trained.step(step)
        checkpoints.save(trained.state(), step, {"step": step})
    checkpoints.finish()
    return trained.digest(), checkpoints.problem()


def loaded(rank: int, world: int) -> tuple[int, str, tuple[str, ...]]:
    checkpoints = BucketCheckpoints(BUCKET, 3, rank, world, "model")
    found = checkpoints.newest()
    assert found is not None
    trained = Trained(world)
    trained.step(99)
    state = trained.state()
    assert checkpoints.load(found, state) == {"step": found.step}
    trained.take(state)
    return found.step, trained.digest(), found.passed_over


@pytest.mark.parametrize("world", [1, 2, 3])
def test_a_checkpoint_comes_back_on_any_number_of_ranks(world: int, s3: Any) -> None:
    [(digest, problem), _] = together(2, lambda rank: saved(rank, 2, (1, 2)))
    assert problem is None
    assert together(world, lambda rank: loaded(rank, world)) == [(2, digest, ())] * world


def test_the_newest_few_are_kept_and_a_step_that_is_done_again_is_there_once(s3: Any) -> None:
    alone(lambda: saved(0, 1, (1, 2, 3, 4), keep=2))
    assert [name.partition(".")[0] for name in names(s3)] == ["step-00000003", "step-00000004"]
    before = names(s3)
    alone(lambda: saved(0, 1, (4,), keep=2))
    assert [name.partition(".")[0] for name in names(s3)] == ["step-00000003", "step-00000004"]
    assert names(s3)[1] != before[1]
    assert {key.split("/")[1] for key in keys(s3)} == set(names(s3))


def test_large_objects_go_and_come_in_parts(s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "PART", 5 * 2**20)
    content = os.urandom(23 * 2**20 + 7)
    store = Objects(BUCKET)
    with store.upload("large") as upload:
        for start in range(0, len(content), 3_000_001):
            upload.write(memoryview(content)[start : start + 3_000_001])
        file = upload.durable()
    head = s3.head_object(Bucket="runs", Key="mine/large")
    assert head["ETag"].strip('"').endswith("-5")  # number of parts
    assert (head["ContentLength"], file.bytes) == (len(content), len(content))
    assert store.get("large") == content
    assert store.get("large", 5 * 2**20 - 3, 11) == content[5 * 2**20 - 3 :][:11]
    assert store.crc("large", len(content)) == file.digest


def test_a_listing_has_all_its_pages(s3: Any) -> None:
    for number in range(7):
        s3.put_object(Bucket="runs", Key=f"mine/step-{number}", Body=b"x" * number)
    store = Objects(BUCKET)
    plain, pages = store._client.list_objects_v2, []

    def short(**told: Any) -> Any:
        pages.append(told)
        return plain(**told, MaxKeys=3)

    store._client.list_objects_v2 = short
    assert store.sizes() == {f"step-{number}": number for number in range(7)}
    assert len(pages) == 3


@pytest.mark.parametrize("broken", ["manifest", "missing", "torn", "changed"])
def test_the_last_whole_one_is_where_a_run_goes_on(broken: str, s3: Any) -> None:
    digest, _ = alone(lambda: saved(0, 1, (1,)))
    alone(lambda: saved(0, 1, (2,)))
    last = names(s3)[-1]
    key = f"mine/{last}/__0_0.distcp"
    content = s3.get_object(Bucket="runs", Key=key)["Body"].read()
    if broken == "manifest":
        s3.delete_object(Bucket="runs", Key=f"mine/{last}/{MANIFEST}")
    elif broken == "missing":
        s3.delete_object(Bucket="runs", Key=key)
    elif broken == "torn":
        s3.put_object(Bucket="runs", Key=key, Body=content[:-1])
    else:
        s3.put_object(Bucket="runs", Key=key, Body=content[:-1] + bytes([content[-1] ^ 1]))
    step, found, passed_over = alone(lambda: loaded(0, 1))
    told = {
        "manifest": (),
        "missing": (f"{BUCKET}/{last}/__0_0.distcp: is missing, and manifest.json says {len(content)} bytes",),
        "torn": (
            f"{BUCKET}/{last}/__0_0.distcp: has {len(content) - 1} bytes, and manifest.json says {len(content)} bytes",
        ),
        "changed": (
            f"{BUCKET}/{last}/__0_0.distcp: has not the digest that manifest.json says: its bytes have changed since",
        ),
    }[broken]
    assert (step, passed_over) == (1, told)
    assert found == digest or broken == "manifest"


def test_remains_of_killed_writers_are_removed(s3: Any) -> None:
    """These are objects without a manifest, and parts of unfinished uploads."""
    s3.put_object(Bucket="runs", Key="mine/step-00000001.00ab/__0_0.distcp", Body=b"half")
    s3.put_object(Bucket="runs", Key="mine/another", Body=b"not ours")
    s3.create_multipart_upload(Bucket="runs", Key="mine/step-00000001.00ab/__1_0.distcp")
    alone(lambda: saved(0, 1, (2,)))
    assert {key.split("/")[1] for key in keys(s3)} == {names(s3)[0], "another"}
    assert not s3.list_multipart_uploads(Bucket="runs").get("Uploads")


def test_a_store_that_does_not_answer_stops_no_training(s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "TRIES", 1)
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
    _, problem = alone(lambda: saved(0, 1, (1, 2)))
    assert problem is not None
    assert "step-00000001." in problem
    assert "was not saved, and training goes on" in problem
    assert "cannot be reached: Could not connect to the endpoint URL" in problem


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("s3://", "s3://: is no address of a bucket: write s3://BUCKET/PREFIX"),
        ("gs://runs/mine", "gs://runs/mine: is no address of a bucket: write s3://BUCKET/PREFIX"),
    ],
)
def test_another_address_is_refused(url: str, said: str) -> None:
    with pytest.raises(CheckpointError) as refused:
        Objects(url)
    assert str(refused.value) == said


def test_a_bucket_that_is_missing_is_said_to_all_ranks(s3: Any) -> None:
    def refused(rank: int) -> str:
        try:
            BucketCheckpoints("s3://absent/mine", 3, rank, 2, "model").newest()
        except CheckpointError as error:
            return str(error)
        return ""

    said = together(2, refused)
    assert said[0] == said[1]
    assert said[0].startswith("s3://absent/mine/step-: is missing: ")


@pytest.mark.long
def test_a_session_goes_on_from_a_bucket_with_the_same_bits(
    s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = functools.partial(test_session.loop, layout="fsdp", snapshots=False, every_s=1e-6)
    [(_, undisturbed, _), _] = together(2, lambda rank: run(rank, tmp_path / "one"))

    def killed(rank: int, step: int) -> None:
        if rank == 1 and step == 7:
            os.kill(os.getpid(), signal.SIGKILL)

    ranks = begun(2, lambda rank: run(rank, tmp_path / "two", at=functools.partial(killed, rank), checkpoints=BUCKET))
    ranks[1][0].join()
    for process, _ in ranks:
        process.kill()
        process.join()
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    [(first, found, _), _] = together(2, lambda rank: run(rank, tmp_path / "two", checkpoints=BUCKET))
    assert 0 < first < 7
    assert found == undisturbed
    assert test_session.record(tmp_path / "two")["checkpoints"][-1]["folder"].startswith(f"{BUCKET}/step-00000012.")
