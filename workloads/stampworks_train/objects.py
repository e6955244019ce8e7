"""Objects of an S3 bucket: listed page by page, written and read in parallel parts. boto3 finds address and credentials
as usual: AWS_ENDPOINT_URL_S3, AWS_PROFILE, the role of the node."""

from __future__ import annotations

import concurrent.futures
import contextlib
import threading
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from .manifest import CheckpointError
from .stream import File
from .words import plain

PART = 2**25
"""Bytes of a part; S3 allows 10,000 parts of at least 5 MiB."""
PARALLEL = 8
"""Parallel requests of a rank: a single stream of S3 is slower than a network."""
TRIES = 8
MISSING = ("404", "NoSuchKey", "NoSuchBucket", "NotFound")


class Objects:
    """The objects below a URL such as s3://bucket/prefix."""

    def __init__(self, url: str) -> None:
        try:
            import boto3
            from botocore.config import Config
        except ImportError:
            raise CheckpointError(f"{url}: needs boto3: pip install stampworks-train[s3]") from None
        self.url = url.rstrip("/")
        self._bucket, _, prefix = self.url.removeprefix("s3://").partition("/")
        if not self.url.startswith("s3://") or not self._bucket:
            raise CheckpointError(f"{url}: is no address of a bucket: write s3://BUCKET/PREFIX")
        self._prefix = f"{prefix}/" if prefix else ""
        patient = Config(retries={"max_attempts": TRIES, "mode": "standard"}, max_pool_connections=2 * PARALLEL)
        self._client = boto3.client("s3", config=patient)
        self.threads = concurrent.futures.ThreadPoolExecutor(PARALLEL)

    def sizes(self, below: str = "") -> dict[str, int]:
        """Return the sizes of all objects below a name. A failed page is requested again."""
        found: dict[str, int] = {}
        more: dict[str, str] = {}
        while True:
            page = self._call(below, "list_objects_v2", Prefix=self._prefix + below, **more)
            for each in page.get("Contents", ()):
                found[each["Key"].removeprefix(self._prefix)] = int(each["Size"])
            if not page.get("IsTruncated"):
                return found
            more = {"ContinuationToken": page["NextContinuationToken"]}

    def get(self, name: str, begin: int = 0, size: int | None = None) -> bytes:
        """An object, or so many bytes of it."""
        part = {} if size is None else {"Range": f"bytes={begin}-{begin + size - 1}"}
        if size == 0:
            return b""
        with self._located(name):
            content: bytes = self._client.get_object(Bucket=self._bucket, Key=self._prefix + name, **part)[
                "Body"
            ].read()
        return content

    def crc(self, name: str, size: int) -> str:
        """The CRC-32 of an object: its parts are read at the same time."""
        found = 0
        spans = [(begin, min(PART, size - begin)) for begin in range(0, size, PART)]
        for content in ahead(self.threads, [(name, *span) for span in spans], self.get):
            found = zlib.crc32(content, found)
        return f"{found:08x}"

    def put(self, name: str, content: bytes) -> File:
        """Write a small object at once."""
        self._call(name, "put_object", Key=self._prefix + name, Body=content)
        return File(len(content), f"{zlib.crc32(content):08x}")

    def remove(self, names: list[str]) -> None:
        """Remove objects, 1000 in a request. Raise CheckpointError for the first one that stays."""
        for begin in range(0, len(names), 1000):
            keys = [{"Key": self._prefix + name} for name in names[begin : begin + 1000]]
            answer = self._call(names[begin], "delete_objects", Delete={"Objects": keys, "Quiet": True})
            for error in answer.get("Errors", ())[:1]:
                raise CheckpointError(
                    f"{self.url}/{error.get('Key')}: is not removed: {plain(error.get('Message', ''))}"
                )

    def abandon(self, below: str) -> None:
        """End the uploads of killed writers, whose invisible parts cost money."""
        page = self._call(below, "list_multipart_uploads", Prefix=self._prefix + below)
        for each in page.get("Uploads", ()):
            self._call(below, "abort_multipart_upload", Key=each["Key"], UploadId=each["UploadId"])

    def upload(self, name: str) -> Upload:
        """Return a stream whose object appears when it is complete."""
        return Upload(self, name)

    def call(self, name: str, what: str, **told: Any) -> Any:
        """A request about one object."""
        return self._call(name, what, Key=self._prefix + name, **told)

    def _call(self, name: str, what: str, **told: Any) -> Any:
        with self._located(name):
            return getattr(self._client, what)(Bucket=self._bucket, **told)

    @contextlib.contextmanager
    def _located(self, name: str) -> Iterator[None]:
        """Raise CheckpointError with the object's name, which errors of boto3 lack."""
        from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError

        where = f"{self.url}/{name}".rstrip("/")
        try:
            yield
        except ClientError as error:
            code = error.response.get("Error", {}).get("Code", "")
            hint = "is missing" if code in MISSING else "refused"
            raise CheckpointError(f"{where}: {hint}: {plain(str(error))}") from None
        except (BotoCoreError, HTTPClientError, OSError) as error:
            raise CheckpointError(f"{where}: cannot be reached: {plain(str(error))}") from None


class Upload:
    """A new object. Parts are sent while the next one is filled; the object exists when `durable` returns."""

    def __init__(self, objects: Objects, name: str) -> None:
        self._objects, self._name = objects, name
        self._block = bytearray()
        self._id = ""
        self._sum = 0
        self._parts: list[concurrent.futures.Future[dict[str, Any]]] = []
        self._room = threading.Semaphore(PARALLEL)
        self._failed: Exception | None = None
        self.bytes = 0

    def __enter__(self) -> Upload:
        return self

    def __exit__(self, *_: object) -> None:
        for part in self._parts:
            part.cancel()

    def write(self, data: Any) -> int:
        """Never raises, as Stream.write."""
        content = memoryview(data)
        content = content.cast("B") if content.nbytes else memoryview(b"")
        self.bytes += content.nbytes
        self._sum = zlib.crc32(content, self._sum)
        for begin in range(0, content.nbytes, PART):
            self._block += content[begin : begin + PART]
            if len(self._block) >= PART:
                self._send()
        return content.nbytes

    def flush(self) -> None:
        """A part waits until it is full, or `durable` is asked for."""

    def check(self) -> None:
        """Raise the error of a part that failed in the background."""
        for part in self._parts:
            if part.done() and (error := part.exception()):
                raise error
        if self._failed:
            raise self._failed

    def durable(self) -> File:
        """Complete the object. Small ones go in one request."""
        self.check()
        if not self._id:
            return self._objects.put(self._name, bytes(self._block))
        if self._block:
            self._send()
        self.check()
        parts = [part.result() for part in self._parts]
        self._objects.call(self._name, "complete_multipart_upload", UploadId=self._id, MultipartUpload={"Parts": parts})
        return File(self.bytes, f"{self._sum:08x}")

    def _send(self) -> None:
        """Begin to send the block; wait if too many are under way."""
        content, self._block = bytes(self._block), bytearray()
        try:
            if not self._id:
                self._id = self._objects.call(self._name, "create_multipart_upload")["UploadId"]
        except CheckpointError as error:
            self._failed = error
            return
        self._room.acquire()
        self._parts.append(self._objects.threads.submit(self._sent, len(self._parts) + 1, content))

    def _sent(self, number: int, content: bytes) -> dict[str, Any]:
        try:
            told = {"UploadId": self._id, "PartNumber": number, "Body": content}
            return {"PartNumber": number, "ETag": self._objects.call(self._name, "upload_part", **told)["ETag"]}
        finally:
            self._room.release()


def ahead(
    threads: concurrent.futures.Executor, asked: list[tuple[str, int, int]], work: Callable[..., bytes]
) -> Iterator[bytes]:
    """Yield the answers in order, and request a few of them ahead."""
    waiting: list[concurrent.futures.Future[bytes]] = []
    for each in asked:
        waiting.append(threads.submit(work, *each))
        if len(waiting) > PARALLEL:
            yield waiting.pop(0).result()
    while waiting:
        yield waiting.pop(0).result()
