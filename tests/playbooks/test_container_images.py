"""Container images built from a node's own files."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from ansible_collections.stampworks.node.plugins.module_utils.node import Refused
from ansible_collections.stampworks.node.plugins.modules import container_images
from ansible_collections.stampworks.node.plugins.modules.container_images import archive

pytestmark = pytest.mark.long


@pytest.fixture
def content(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "program").write_text("hello")
    return {
        "copies": [str(tmp_path / "program")],
        "directories": ["tmp", "usr"],
        "links": {"bin": "usr/bin"},
        "command": ["/program"],
    }


def files(data: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        return {entry.name: file.read() for entry in tar if (file := tar.extractfile(entry))}


def opened(data: bytes) -> tuple[dict[str, Any], dict[str, tarfile.TarInfo]]:
    """Return the settings of the indexed image, and the content of its only layer."""
    whole = files(data)

    def blob(described: dict[str, Any]) -> bytes:
        return whole[f"blobs/{described['digest'].replace(':', '/')}"]

    [named] = json.loads(whole["index.json"])["manifests"]
    assert named["annotations"] == {"io.containerd.image.name": "local/one:1"}
    manifest = json.loads(blob(named))
    [layer] = manifest["layers"]
    with tarfile.open(fileobj=io.BytesIO(blob(layer))) as tar:
        return json.loads(blob(manifest["config"])), {entry.name: entry for entry in tar}


def test_an_image_has_what_it_is_made_of(content: dict[str, Any]) -> None:
    _, data = archive("local/one:1", content)
    config, found = opened(data)
    assert config["config"]["Entrypoint"] == ["/program"]
    assert found["tmp"].mode == 0o1777
    assert found["usr"].isdir()
    assert found["bin"].linkname == "usr/bin"
    assert found[content["copies"][0].strip("/")].size == len("hello")


def test_the_same_files_make_the_same_image(content: dict[str, Any]) -> None:
    """The digest does not depend on time: a second run can see that nothing changed."""
    first = archive("local/one:1", content)
    file = Path(content["copies"][0])
    file.touch()
    assert archive("local/one:1", content) == first
    file.write_text("other")
    assert archive("local/one:1", content)[0] != first[0]


def test_a_file_that_is_not_there_is_named(content: dict[str, Any]) -> None:
    with pytest.raises(Refused, match="/no/such is not on this node, and an image is made of it"):
        archive("local/one:1", content | {"copies": ["/no/such"]})


def test_only_what_is_missing_is_made(content: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Check mode only reports it."""
    said: list[str] = []
    there = ""

    def run(argv: list[str], **_: Any) -> CompletedProcess[str]:
        said.append(" ".join(argv[2:4]))
        return CompletedProcess(argv, 0, there, "")

    monkeypatch.setattr(container_images, "run", run)
    images = {"local/one:1": content}
    assert container_images.work(True, images)["drift"] == ["image local/one:1 is not what the node's files would make"]
    assert said == ["images list"]
    assert container_images.work(False, images)["made"] == ["local/one:1"]
    assert said[1:] == ["images list", "images import", "images label"]
    there = f"local/one:1 {container_images.MADE_OF}={archive('local/one:1', content)[0]}"
    assert container_images.work(False, images)["made"] == []
