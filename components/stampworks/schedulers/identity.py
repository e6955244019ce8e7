"""Admission rules by which the pods of a user run as that user, and see no secret of another.

Otherwise a user who may create pods in a namespace could run as root or as another member of the team, with that user's
rights on shared storage, and mount the Secrets of others. Written for the admission policies of Kubernetes 1.30 and
newer (admissionregistration.k8s.io/v1), in CEL.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stampworks.plan import Plan

USER = "stampworks/user"
"""Annotation with the user of a run."""
FILES = "files-u"
"""Prefix of the Job in whose pod a user reads files; the user id and a dash follow."""
FILES_LABEL = "stampworks/files"
"""The label of these Jobs."""
SECRETS = "-secrets"
"""Suffix of the Secret of a user's job, behind the user's number."""

Rule = tuple[str, str, str, Sequence[str]]
"""Group, version, resource and operations."""

_ENDED = ["CREATE", "UPDATE", "DELETE"]
_PODS = {
    "jobs": "[object.spec.template.spec]",
    "jobsets": "object.spec.replicatedJobs.map(each, each.template.spec.template.spec)",
    "trainingruntimes": "object.spec.template.spec.replicatedJobs.map(each, each.template.spec.template.spec)",
    "mpijobs": "object.spec.mpiReplicaSpecs.map(role, object.spec.mpiReplicaSpecs[role].template.spec)",
}
_OF_ADDONS: dict[str, tuple[Rule, ...]] = {
    "trainer": (
        ("trainer.kubeflow.org", "v1alpha1", "trainingruntimes", _ENDED),
        ("trainer.kubeflow.org", "v1alpha1", "trainjobs", _ENDED),
    ),
    "mpi-operator": (("kubeflow.org", "v2beta1", "mpijobs", _ENDED),),
}
AS_OTHERS = (
    "pods of a user run as that user: securityContext.runAsUser and runAsGroup are the user's number, "
    "supplementalGroups the user's groups at most, and there is no fsGroup"
)
RISES = "containers of a user say securityContext.allowPrivilegeEscalation: false, and run as no other user"
NOT_HERS = "this is a secret of another user's job"
OF_ANOTHER = f"this belongs to another user: the annotation {USER} says whose it is"
PATCHED = "a TrainJob of a user changes no pods of its runtime, which say whose they are"
OWN_RUNTIME = "a TrainJob of a user names a TrainingRuntime of that user, whose name ends with -u and the user's number"
MADE_RUNTIME = (
    f"the name of a user's TrainingRuntime ends with -u and the user's number, and its template's annotation {USER} "
    "names no other user"
)
CALLED = f"a name that begins with {FILES} has the number of the user who makes it"
LOOKS_IN = f"users start programs in pods of their own that begin with {FILES} alone"
MADE_SECRET = f"a user's secret is Opaque, and its name ends with -u, the user's number and {SECRETS}"


def runtime_name(name: str, uid: int) -> str:
    """Return the name of the runtime of a user's TrainJob. The server can check only the created object, so that the
    name identifies the runtime's user. Root's runtime has the name of the job."""
    return f"{name}-u{uid}" if uid else name


def looks(role: str, users: Sequence[str]) -> list[tuple[str, dict[str, Any]]]:
    """Return roles that let users see nodes and their use, as on Slurm."""
    group = "rbac.authorization.k8s.io"
    rules = [
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list"]},
        {"apiGroups": ["kueue.x-k8s.io"], "resources": ["clusterqueues"], "verbs": ["get", "list"]},
    ]
    subjects = [{"apiGroup": group, "kind": "User", "name": user} for user in users]
    of = {"apiGroup": group, "kind": "ClusterRole", "name": role}
    return [("ClusterRole", {"rules": rules}), ("ClusterRoleBinding", {"roleRef": of, "subjects": subjects})]


def rules(addons: Sequence[str]) -> list[Rule]:
    """Return the requests that are judged."""
    found: list[Rule] = [
        ("batch", "v1", "jobs", _ENDED),
        ("jobset.x-k8s.io", "v1alpha2", "jobsets", _ENDED),
        ("", "v1", "configmaps", _ENDED),
        ("", "v1", "secrets", _ENDED),
        ("", "v1", "pods/exec", ["CONNECT"]),
    ]
    return found + [rule for name in addons for rule in _OF_ADDONS.get(name, ())]


def variables(plan: Plan) -> list[dict[str, str]]:
    """Return the variables of validations, in the order of their dependencies."""
    gids = {team.name: team.gid for team in plan.teams}
    uids = ", ".join(f"'{user.name}': {user.uid}" for user in plan.users)
    groups = ", ".join(
        f"'{user.name}': [{', '.join(str(gids[name]) for name in user.groups)}]" for user in plan.users if user.groups
    )
    asked = "".join(f"request.resource.resource == '{resource}' ? {pods} : " for resource, pods in _PODS.items())
    found = {
        "uid": f"{{{uids}}}[?request.userInfo.username].orValue(-1)",
        "groups": f"{{{groups}}}[?request.userInfo.username].orValue([])" if groups else "[]",
        "mark": "'-u' + string(variables.uid)",
        "goes": "request.operation == 'DELETE'",
        "pods": f"request.operation in ['DELETE', 'CONNECT'] ? [] : {asked}[]",
    }
    return [{"name": name, "expression": expression} for name, expression in found.items()]


def validations(addons: Sequence[str]) -> list[tuple[str, str]]:
    """Return the conditions of a request, each with the text for a violation."""
    containers = "(pod.containers + pod.?initContainers.orValue([]))"
    context = "securityContext"
    as_user = f"pod.?{context}.?runAsUser.orValue(-2) == variables.uid"
    as_group = f"pod.?{context}.?runAsGroup.orValue(-2) == variables.uid"
    groups = f"pod.?{context}.?supplementalGroups.orValue([]).all(gid, gid in variables.groups)"
    fs_group = f"pod.?{context}.?fsGroup.orValue(-2) == -2"
    stays = f"!each.?{context}.?allowPrivilegeEscalation.orValue(true)"
    alike = " && ".join(
        f"each.?{context}.?{field}.orValue(variables.uid) == variables.uid" for field in ("runAsUser", "runAsGroup")
    )
    # a Secret without a job belongs to the team
    own = f"(!{{0}}.matches('-u[0-9]+{SECRETS}$') || {{0}}.endsWith(variables.mark + '{SECRETS}'))"
    env = own.format("one.?valueFrom.?secretKeyRef.?name.orValue('')")
    whole = own.format("one.?secretRef.?name.orValue('')")
    volume = own.format("one.?secret.?secretName.orValue('')")
    part = own.format("source.?secret.?name.orValue('')")
    secrets = (
        f"{containers}.all(each, each.?env.orValue([]).all(one, {env}) && each.?envFrom.orValue([]).all(one, {whole}))"
        f" && pod.?volumes.orValue([]).all(one, {volume} && one.?projected.?sources.orValue([]).all(source, {part}))"
    )
    whose = "metadata.?annotations[?'" + USER + "'].orValue(request.userInfo.username) == request.userInfo.username"
    is_secret = "request.resource.resource == 'secrets'"  # noqa: S105
    ends = f"request.name.endsWith(variables.mark + '{SECRETS}')"
    # Kueue patches each new TrainJob with its queue, and patches its pods on admission.
    patches = "object.spec.?runtimePatches.orValue([])"
    template = "each.?trainingRuntimeSpec.?template"
    no_pods = f"{template}.?spec.?replicatedJobs.orValue([]).size() == 0"
    no_owner = f"{template}.?metadata.?annotations.orValue({{}}).size() == 0"
    older = ("podTemplateOverrides", "podSpecOverrides")
    unpatched = " && ".join(
        [
            *(f"object.spec.?{field}.orValue([]).size() == 0" for field in older),
            f"({patches} == (oldObject == null ? [] : oldObject.spec.?runtimePatches.orValue([])) || "
            f"{patches}.all(each, {no_pods} && {no_owner}))",
        ]
    )
    begins = ("trainer", "initializer.?dataset", "initializer.?model")
    of_job = " && ".join(
        [
            *(f"object.spec.?{part}.?env.orValue([]).all(one, {env})" for part in begins),
            *(own.format(f"object.spec.?{part}.?secretRef.?name.orValue('')") for part in begins[1:]),
        ]
    )
    is_trainjob = "request.resource.resource == 'trainjobs' && !variables.goes"
    is_runtime = "request.resource.resource == 'trainingruntimes' && !variables.goes"
    runtime = "object.spec.runtimeRef"
    named = f"{runtime}.kind == 'TrainingRuntime' && {runtime}.name.endsWith(variables.mark)"
    made = f"object.metadata.name.endsWith(variables.mark) && object.spec.template.?{whose}"
    found = [
        (f"oldObject == null || oldObject.{whose}", OF_ANOTHER),
        (f"request.operation in ['DELETE', 'CONNECT'] || object.{whose}", OF_ANOTHER),
        (f"variables.pods.all(pod, {as_user} && {as_group} && {groups} && {fs_group})", AS_OTHERS),
        (f"variables.pods.all(pod, {containers}.all(each, {stays} && {alike}))", RISES),
        (f"variables.pods.all(pod, {secrets})", NOT_HERS),
        (
            f"variables.pods.size() == 0 || !object.metadata.name.startsWith('{FILES}') || "
            f"object.metadata.name.startsWith('{FILES}' + string(variables.uid) + '-')",
            CALLED,
        ),
        (f"!({is_secret}) || ({ends} && (variables.goes || object.type == 'Opaque'))", MADE_SECRET),
        (
            f"request.operation != 'CONNECT' || request.name.startsWith('{FILES}' + string(variables.uid) + '-')",
            LOOKS_IN,
        ),
    ]
    if "trainer" in addons:
        found += [
            (f"!({is_trainjob}) || ({of_job})", NOT_HERS),
            (f"!({is_trainjob}) || ({unpatched})", PATCHED),
            (f"!({is_trainjob}) || ({named})", OWN_RUNTIME),
            (f"!({is_runtime}) || ({made})", MADE_RUNTIME),
        ]
    return found
