"""Makes images of containers from files that the node has, and gives them to containerd."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.stampworks.node.plugins.module_utils.node import Refused, answering, run

DOCUMENTATION = """
module: container_images
short_description: Make images of containers from the node's own files
description:
  - An image has one layer. It is made anew when any of its files is another one.
options:
  images:
    description: >-
      By name what is in an image: paths of the node that are copied, directories that are empty, links by their place,
      and the command that a container runs.
    type: dict
    required: true
"""

CTR = ("ctr", "--namespace=k8s.io")
LAYER, CONFIG = "application/vnd.oci.image.layer.v1.tar", "application/vnd.oci.image.config.v1+json"
MANIFEST, INDEX = "application/vnd.oci.image.manifest.v1+json", "application/vnd.oci.image.index.v1+json"
MADE_OF = "stampworks.made-of"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def work(check: bool, images: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    there = run([*CTR, "images", "list"], check=not check).stdout
    archives = {name: archive(name, content) for name, content in images.items()}
    missing = [name for name, (digest, _) in archives.items() if f"{MADE_OF}={digest}" not in there]
    if not check:
        for name in missing:
            digest, data = archives[name]
            with tempfile.NamedTemporaryFile(suffix=".tar") as file:
                file.write(data)
                file.flush()
                run([*CTR, "images", "import", file.name])
                run([*CTR, "images", "label", name, f"{MADE_OF}={digest}", "io.cri-containerd.pinned=pinned"])
    drift = [f"image {name} is not what the node's files would make" for name in missing]
    return {"changed": bool(missing), "drift": drift, "made": missing}


def archive(name: str, content: Mapping[str, Any]) -> tuple[str, bytes]:
    """An OCI archive, and a digest of all that is in it."""
    layer = layer_of(content.get("copies", ()), content.get("directories", ()), content.get("links", {}))
    config = {
        "architecture": ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {"Entrypoint": list(content.get("command", ())), "Env": ["PATH=/usr/local/bin:/usr/bin:/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [said(layer)]},
    }
    blobs = [text(config), layer]
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": described(CONFIG, blobs[0]),
        "layers": [described(LAYER, blobs[1])],
    }
    blobs.append(text(manifest))
    named = described(MANIFEST, blobs[-1]) | {"annotations": {"io.containerd.image.name": name}}
    index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": [named]}
    files = {f"blobs/sha256/{hashlib.sha256(blob).hexdigest()}": blob for blob in blobs}
    files |= {"oci-layout": text({"imageLayoutVersion": "1.0.0"}), "index.json": text(index)}
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        for path, blob in files.items():
            entry = tarfile.TarInfo(path)
            entry.size = len(blob)
            tar.addfile(entry, io.BytesIO(blob))
    return hashlib.sha256(blobs[-1]).hexdigest()[:16], data.getvalue()


def layer_of(copies: Sequence[str], directories: Sequence[str], links: Mapping[str, str]) -> bytes:
    """What is in it is in the same order with the same times: the same files make the same layer."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        for path in directories:
            entry = tarfile.TarInfo(path.strip("/"))
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if entry.name == "tmp" else 0o755
            tar.addfile(entry)
        for path, target in links.items():
            entry = tarfile.TarInfo(path.strip("/"))
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            tar.addfile(entry)
        for path in copies:
            if not Path(path).exists():
                raise Refused(f"{path} is not on this node, and an image is made of it: is it the release's?")
            tar.add(path, path.strip("/"), filter=timeless)
    return data.getvalue()


def timeless(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.mtime = 0
    return entry


def described(kind: str, blob: bytes) -> dict[str, Any]:
    return {"mediaType": kind, "digest": said(blob), "size": len(blob)}


def said(blob: bytes) -> str:
    return f"sha256:{hashlib.sha256(blob).hexdigest()}"


def text(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True).encode()


answer = answering(work)
