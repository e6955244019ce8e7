"""Parts of a booting machine that moto lacks: a console that shows its host key, and another disk to boot from."""

from __future__ import annotations

import base64
from typing import Any

from moto.core.responses import ActionResult
from moto.ec2.responses import EC2Response

CONSOLES: dict[str, str] = {}
"""Console output by instance."""
TASKS: list[dict[str, Any]] = []
"""The work on new disks, as AWS shows it."""
REFUSED, BROKEN = set[str](), set[str]()
"""Images of which AWS creates no disk, and images that do not boot."""


def key(number: int) -> str:
    """A host key as good as any."""
    return f"ssh-ed25519 {base64.b64encode(b'key of a machine that is not ' + number.to_bytes(3, 'big')).decode()}"


def boot(instance: str, number: int, before: str = "") -> str:
    """Show on the console the output of cloud-init at the end of the first boot; return the host key."""
    blocks = f"{before}[   1.0] Linux\r\n-----BEGIN SSH HOST KEY KEYS-----\r\necdsa-sha2-nistp256 AAAA root@ip\r\n"
    CONSOLES[instance] = f"{blocks}{key(number)} root@ip-10-0-0-1\r\n-----END SSH HOST KEY KEYS-----\r\nlogin: "
    return key(number)


def _get_console_output(self: EC2Response) -> ActionResult:
    id_ = self._get_param("InstanceId")
    text = base64.b64encode(CONSOLES.get(id_, "").encode()).decode()
    return ActionResult({"InstanceId": id_, "Output": text})


def _create_replace_root_volume_task(self: EC2Response) -> ActionResult:
    instance: Any = self.ec2_backend.get_instance(self._get_param("InstanceId"))
    image, made = self._get_param("ImageId"), self._get_param("ImageId") not in REFUSED
    task = {
        "ReplaceRootVolumeTaskId": f"replacevol-{len(TASKS) + 1:017x}",
        "InstanceId": instance.id,
        "ImageId": image,
        "TaskState": "succeeded" if made else "failed",
    }
    if made:
        volume = self.ec2_backend.create_volume(size=8, zone_name=instance.placement)
        instance.block_device_mapping[instance.root_device_name].volume_id = volume.id
        instance.image_id = image
    TASKS.append(task)
    return ActionResult({"ReplaceRootVolumeTask": {**task, "TaskState": "pending"}})


def _describe_replace_root_volume_tasks(self: EC2Response) -> ActionResult:
    ids = [each for one in self._get_param("Filters", []) for each in one["Values"]]
    return ActionResult({"ReplaceRootVolumeTasks": [each for each in TASKS if each["InstanceId"] in ids]})


def nothing_has_booted() -> None:
    """Forget all boots, as before the first machine."""
    for each in (CONSOLES, TASKS, REFUSED, BROKEN):
        each.clear()


EC2Response.get_console_output = _get_console_output  # type: ignore[method-assign, assignment]
EC2Response.create_replace_root_volume_task = _create_replace_root_volume_task  # type: ignore[attr-defined]
EC2Response.describe_replace_root_volume_tasks = _describe_replace_root_volume_tasks  # type: ignore[attr-defined]
