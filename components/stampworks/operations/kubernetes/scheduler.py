"""Kubernetes behind the port: its server is asked, and no member."""

from __future__ import annotations

from stampworks.operations.kubernetes.client import KubernetesApi, user_config
from stampworks.operations.kubernetes.ground import KubernetesGround
from stampworks.operations.kubernetes.jobs import KubernetesJobs, ask_storage
from stampworks.operations.kubernetes.run import commands
from stampworks.operations.kubernetes.service import KubernetesService
from stampworks.operations.kubernetes.status import nodes, status
from stampworks.operations.port import Port

PORT = Port(
    asks_members=False,
    service=lambda plan, _: KubernetesService(KubernetesApi.of(plan)),
    ground=KubernetesGround,
    jobs=KubernetesJobs,
    commands=commands,
    status=status,
    nodes=lambda plan, _, names: nodes(plan, names),
    files=lambda _, __: {},
    user_config=user_config,
    ask_storage=ask_storage,
)
