"""Map a plan to the objects for Kueue: queues, teams and fabric.

An account of the plan is a team: a namespace, and a share of every pool that others may borrow while it is idle. Its
queues are LocalQueues in that namespace. Its Cohort counts the team's usage over all queues; a ClusterQueue covers the
queues of a team with the same pools. Written for Kueue 0.17 (kueue.x-k8s.io/v1beta2).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from stampworks import catalog
from stampworks.plan import ACCELERATOR, EVERYBODY, PROOF_NAMESPACE, Account, Driven, Group, Plan, Queue, own_nodes
from stampworks.schedulers import identity, topology
from stampworks.schedulers.topology.kubernetes import HOSTNAME, KUEUE, POOL, key, kueue_objects

PROGRAMS, PROGRAMS_PATH, PROGRAMS_SHARED = "programs", "/usr", "/run/stampworks/usr"
"""The nodes' own programs: name of the claim, path in pods, and read-only path on nodes."""
MIG = "nvidia.com/mig.config"
"""Label of a node with the partition of its accelerators."""
QUEUE_LABEL, PRIORITY_LABEL = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/priority-class"
DEFAULT_QUEUE = "default"
"""Kueue's LocalQueue for jobs that name none. No declared queue has this name."""
OURS = {"app.kubernetes.io/managed-by": "stampworks"}
UNCOUNTED = ("vpc.amazonaws.com/", "rdma/", "hugepages-", "ephemeral-storage")
"""Prefixes of resources that no quota counts: they come with a node's accelerators, or are its scratch. Kueue admits no
workload that requests any other resource."""

Manifest = dict[str, Any]

_PREEMPTS: Mapping[str, Mapping[str, Any]] = {
    "off": {"withinClusterQueue": "Never", "reclaimWithinCohort": "Never"},
    # A team gets its share back from borrowers, in proportion to shares and regardless of urgency; within a team the
    # more urgent job comes first.
    "requeue": {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"},
}


def objects(plan: Plan) -> list[Manifest]:
    """Return all objects, in the order of their dependencies. Their number does not depend on the number of nodes."""
    hardware = list(_hardware(plan))
    named = _flavors(hardware)
    found = [
        *hardware,
        *_priorities(plan),
        *_left(plan, named),
        *(each for team in teams(plan) for each in _team(plan, team, named)),
    ]
    found += [*_everybody(plan), *_admission(plan)]
    if plan.pools:
        found.append(
            _object("v1", "Namespace", PROOF_NAMESPACE, labels={"pod-security.kubernetes.io/enforce": "privileged"})
        )
    return found


def queues(made: Iterable[Manifest]) -> dict[str, dict[str, str]]:
    """Return the LocalQueues of each team among a cluster's objects, with the ClusterQueue of each."""
    found: dict[str, dict[str, str]] = {}
    for each in made:
        if each["kind"] == "LocalQueue":
            found.setdefault(each["metadata"]["namespace"], {})[each["metadata"]["name"]] = each["spec"]["clusterQueue"]
    return found


def refers_to(manifest: Manifest) -> list[tuple[str, str]]:
    """Return the cluster-wide objects that a manifest refers to, by kind and name: a quota names a flavor, and a flavor
    a topology."""
    spec = manifest.get("spec", {})
    named = [("Namespace", manifest["metadata"].get("namespace")), ("Topology", spec.get("topologyName"))]
    named += [("ResourceFlavor", each["name"]) for group in spec.get("resourceGroups", ()) for each in group["flavors"]]
    return [(kind, name) for kind, name in named if name]


def flavors(plan: Plan) -> dict[str, str]:
    """Return the flavor of each pool, under which quotas count its nodes."""
    return _flavors(_hardware(plan))


def _flavors(hardware: Iterable[Manifest]) -> dict[str, str]:
    there = (each for each in hardware if each["kind"] == "ResourceFlavor")
    return {each["spec"]["nodeLabels"][POOL]: each["metadata"]["name"] for each in there}


def teams(plan: Plan) -> tuple[Account, ...]:
    """Return the accounts; a single team of all users if none are declared."""
    everybody = Account(EVERYBODY, tuple(user.name for user in plan.users), share=1, accelerators_max=0)
    return plan.scheduler.accounts or (everybody,)


def claimants(plan: Plan) -> tuple[Account, ...]:
    """Return the teams whose namespaces have the file systems: a proof from an image has the same mounts as runs."""
    proofs = Account(PROOF_NAMESPACE, (), share=0, accelerators_max=0)
    return (*teams(plan), *([proofs] if plan.pools and plan.scheduler.workloads_image else []))


def pools(plan: Plan) -> tuple[Group, ...]:
    """Return the pools that pods may be on, whether their nodes are real or not."""
    return (*plan.pools, *plan.scheduling_only)


def capacity(pool: Group) -> dict[str, str]:
    """Return the resources that a node offers to pods, as Kubernetes counts them, without unknown ones."""
    return {name: _amount(name, each) for name, each in _amounts(pool).items()}


def _amounts(pool: Group) -> dict[str, int]:
    machine = pool.machine
    found = {"cpu": machine.cpus, "memory": machine.memory_mib, ACCELERATOR: machine.accelerators}
    return {name: each for name, each in found.items() if each is not None}


def _amount(resource: str, number: int) -> str:
    return f"{number}Mi" if resource == "memory" and number else str(number)  # the server says 0 without a unit


def node_labels(plan: Plan) -> dict[str, dict[str, str]]:
    """Return the labels of planned nodes by name: pool and place in the fabric."""
    made = topology.of_plan(plan)
    keys = [key(level) for level in made.levels]
    domains = {place.node: dict(zip(keys, place.domains, strict=False)) for place in made.places}
    return {
        node.name: {HOSTNAME: node.name, **pool_labels(plan, pool), **domains[node.name]}
        for pool in pools(plan)
        for node in pool.nodes
    }


def pool_labels(plan: Plan, pool: Group) -> dict[str, str]:
    """Return the labels of all its nodes. By MIG the GPU operator divides their accelerators."""
    profile = "".join(each.mig_profile for each in plan.scheduler.addons)
    return {POOL: pool.name, **({MIG: profile} if profile and pool.machine.accelerators else {})}


def _hardware(plan: Plan) -> Iterator[Manifest]:
    named = {pool.name: [node.name for node in pool.nodes] for pool in pools(plan)}
    keys, labelled = _labelled(plan)
    for each in kueue_objects(topology.of_plan(plan), named, plan.name, keys, labelled):
        each["metadata"]["labels"] = OURS
        yield each


def _labelled(plan: Plan) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the labels by which a cloud itself describes the places of nodes, and the pools that have them."""
    nodes = catalog.cloud_nodes().get(plan.cloud) if plan.managed and plan.scheduler.topology != "flat" else None
    keys = nodes.place_labels if nodes else ()
    return keys, tuple(pool.name for pool in plan.pools if pool.rails) if keys else ()


def _priorities(plan: Plan) -> Iterator[Manifest]:
    for each in plan.scheduler.priorities:
        yield _object(KUEUE, "WorkloadPriorityClass", each.name, value=each.weight)


def _left(plan: Plan, named: Mapping[str, str]) -> Iterator[Manifest]:
    """Yield the quota that no team owns, because of its limit: every team can borrow it."""
    own = shares(plan)
    left = {
        pool.name: _amounts(pool).get(ACCELERATOR, 0) * pool.count
        - sum(_own(ACCELERATOR, pool, own[team.name][pool.name], team.accelerators_max) for team in teams(plan))
        for pool in pools(plan)
    }
    flavors = [
        {"name": named[name], "resources": [{"name": ACCELERATOR, "nominalQuota": str(number)}]}
        for name, number in left.items()
        if number
    ]
    if flavors:
        groups = [{"coveredResources": [ACCELERATOR], "flavors": flavors}]
        yield _object(KUEUE, "Cohort", plan.name, spec={"resourceGroups": groups})


def _team(plan: Plan, team: Account, named: Mapping[str, str]) -> Iterator[Manifest]:
    yield _object("v1", "Namespace", team.name, labels={"pod-security.kubernetes.io/enforce": "baseline"})
    yield from _access(plan, team)
    yield from _claims(plan, team)
    own = quota_owner(plan, team)
    quotas = _quotas(named, pools(plan), shares(plan)[team.name], team.accelerators_max)
    lent = {"weight": str(team.share)}
    yield _object(KUEUE, "Cohort", own, spec={"parentName": plan.name, "resourceGroups": quotas, "fairSharing": lent})
    for among, queues in _by_pools(plan).items():
        name = f"{own}-{queues[0].name}"
        members = [pool for pool in pools(plan) if pool.name in among]
        spec = {
            "cohortName": own,
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": team.name}},
            "queueingStrategy": "BestEffortFIFO",
            "preemption": _PREEMPTS[plan.scheduler.preemption],
            "resourceGroups": _quotas(named, members, {}, 0),
        }
        yield _object(KUEUE, "ClusterQueue", name, spec=spec)
        for queue in queues:
            for each in (queue.name, *([DEFAULT_QUEUE] if queue.default else [])):
                yield _object(KUEUE, "LocalQueue", each, team.name, spec={"clusterQueue": name})


def quota_owner(plan: Plan, team: Account) -> str:
    """Objects of Kueue that have no namespace are called after the cluster, too: several may share a Kubernetes."""
    return f"{plan.name}-{team.name}"


def _by_pools(plan: Plan) -> dict[frozenset[str], list[Queue]]:
    """Return the queues grouped by their set of pools."""
    found: dict[frozenset[str], list[Queue]] = {}
    for queue in plan.scheduler.queues:
        found.setdefault(frozenset(queue.pools), []).append(queue)
    return found


def shares(plan: Plan) -> dict[str, dict[str, int]]:
    """Return the number of nodes that each team owns, by team and pool."""
    own = {pool.name: own_nodes(teams(plan), pool.count) for pool in pools(plan)}
    return {team.name: {pool: nodes[team.name] for pool, nodes in own.items()} for team in teams(plan)}


def own_accelerators(plan: Plan, team: Account) -> int:
    """Return the accelerators of a team's quota: those of its nodes, up to its limit."""
    nodes = shares(plan)[team.name]
    return sum(_own(ACCELERATOR, pool, nodes[pool.name], team.accelerators_max) for pool in pools(plan))


def _quotas(
    named: Mapping[str, str], of: Sequence[Group], nodes: Mapping[str, int], accelerators_max: int
) -> list[Manifest]:
    """Return the own quota in each pool, and how much of the others' may be borrowed."""
    covered = sorted({name for pool in of for name in capacity(pool)})
    flavors = [
        {
            "name": named[pool.name],
            "resources": [
                _quota(name, pool, nodes.get(pool.name, 0), accelerators_max if name == ACCELERATOR else 0)
                for name in covered
            ],
        }
        for pool in of
    ]
    return [{"coveredResources": covered, "flavors": flavors}] if covered else []


def _quota(name: str, pool: Group, nodes: int, most: int) -> Manifest:
    own = _own(name, pool, nodes, most)
    limit = {"borrowingLimit": _amount(name, most - own)} if most else {}
    return {"name": name, "nominalQuota": _amount(name, own), **limit}


def _own(resource: str, pool: Group, nodes: int, most: int) -> int:
    """Return the own part of this many nodes; 0 means no limit."""
    amount = nodes * _amounts(pool).get(resource, 0)
    return min(amount, most) if most else amount


def claims(plan: Plan) -> dict[str, str]:
    """Return the claims of each pod namespace, by mount path."""
    return {path: name for name, path in shared(plan).items()}


def level_labels(plan: Plan) -> tuple[str, ...]:
    """Return the labels with the places of nodes in the fabric, the outermost level first; empty if unknown."""
    made = topology.of_plan(plan)
    return _labelled(plan)[0] or (tuple(key(level) for level in made.levels) if made.placed else ())


def shared(plan: Plan) -> dict[str, str]:
    """Return the paths that pods mount, by name; empty if no node runs pods. On nodes without our playbooks only a
    driver's file systems are available."""
    if not plan.pools:
        return {}
    programs = {} if plan.managed or plan.scheduler.workloads_image else {PROGRAMS: PROGRAMS_PATH}
    return {**programs, **{each.name: each.mount for each in plan.storage if each.driver or not plan.managed}}


def _claims(plan: Plan, team: Account) -> Iterator[Manifest]:
    """Yield claims of directories of nodes. For file systems of a cloud, `driven` has their volumes."""
    for name, path in shared(plan).items() if not plan.managed else ():
        directory = PROGRAMS_SHARED if name == PROGRAMS else path
        leads = {"hostPath": {"path": directory, "type": "Directory"}}
        yield from _claim(plan, team, name, directory, leads)


def driven(plan: Plan, team: Account, name: str, found: Driven) -> tuple[Manifest, Manifest]:
    """A file system that a driver mounts in a team's pods: the volume, and the claim that has its name."""
    source = {
        "driver": found.driver,
        "volumeHandle": f"{found.handle}-{team.name}" if found.own_handles else found.handle,
        **({"volumeAttributes": dict(found.attributes)} if found.attributes else {}),
    }
    options = {"mountOptions": [*found.options]} if found.options else {}
    return _claim(plan, team, name, found.handle, {"csi": source, **options})


def _claim(plan: Plan, team: Account, name: str, where: str, leads: Manifest) -> tuple[Manifest, Manifest]:
    """Return volume and claim of a team for a storage. A volume belongs to one claim, and a claim to one namespace; the
    name contains a digest of the source, because a volume's source cannot be changed."""
    volume = f"{plan.name}-{team.name}-{name}-{hashlib.sha256(where.encode()).hexdigest()[:8]}"
    modes = ["ReadOnlyMany" if name == PROGRAMS else "ReadWriteMany"]
    size = {"storage": "1Gi"}  # Kubernetes requires a size and ignores it here
    made = {
        "accessModes": modes,
        "capacity": size,
        "claimRef": {"namespace": team.name, "name": name},
        **leads,
        "persistentVolumeReclaimPolicy": "Retain",
    }
    wanted = {"accessModes": modes, "resources": {"requests": size}, "storageClassName": "", "volumeName": volume}
    return (
        _object("v1", "PersistentVolume", volume, spec=made),
        _object("v1", "PersistentVolumeClaim", name, team.name, spec=wanted),
    )


_TRAINER = "trainer"
_KINDS_OF_JOBS: Mapping[str, tuple[str, Sequence[str]]] = {
    _TRAINER: ("trainer.kubeflow.org", ("trainingruntimes", "trainjobs")),  # a job has its pods from a runtime
    "mpi-operator": ("kubeflow.org", ("mpijobs",)),
}


def _kinds_of_jobs(plan: Plan) -> list[tuple[str, Sequence[str]]]:
    """Return the kinds of jobs of add-ons, each with its group."""
    return [_KINDS_OF_JOBS[each.name] for each in plan.scheduler.addons if each.name in _KINDS_OF_JOBS]


def _access(plan: Plan, team: Account) -> Iterator[Manifest]:
    """Yield the rights in a team's namespace, and the policy that keeps other pods and the outside away."""
    jobs = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
    look = ["get", "list", "watch"]
    rules = [
        {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": jobs},
        {"apiGroups": ["jobset.x-k8s.io"], "resources": ["jobsets"], "verbs": jobs},
        *({"apiGroups": [group], "resources": [*kinds], "verbs": jobs} for group, kinds in _kinds_of_jobs(plan)),
        {"apiGroups": [""], "resources": ["configmaps", "services"], "verbs": jobs},
        {
            "apiGroups": [""],  # a volume whose claim was deleted would never be bound again
            "resources": ["events", "persistentvolumeclaims", "pods", "pods/log", "pods/status"],
            "verbs": look,
        },
        {"apiGroups": ["kueue.x-k8s.io"], "resources": ["localqueues", "workloads"], "verbs": look},
        # Secrets may be created and not read; the policy `users` limits for whom. A terminal also uses get.
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create", "delete"]},
        {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create", "get"]},
    ]
    yield _object("rbac.authorization.k8s.io/v1", "Role", "team", team.name, rules=rules)
    if team.users:
        group = "rbac.authorization.k8s.io"
        yield _object(
            f"{group}/v1",
            "RoleBinding",
            "team",
            team.name,
            roleRef={"apiGroup": group, "kind": "Role", "name": "team"},
            subjects=[{"apiGroup": group, "kind": "User", "name": user} for user in team.users],
        )
    inside = {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{"from": [{"podSelector": {}}]}]}
    yield _object("networking.k8s.io/v1", "NetworkPolicy", "team", team.name, spec=inside)
    # Access from outside would be a load balancer, which may be public, or a port of every node.
    doors = {"services.loadbalancers": "0", "services.nodeports": "0"}
    yield _object("v1", "ResourceQuota", "team", team.name, spec={"hard": doors})


def _everybody(plan: Plan) -> Iterator[Manifest]:
    users = sorted({user for team in teams(plan) for user in team.users})
    for kind, content in identity.looks(f"{plan.name}-users", users) if users else ():
        yield _object("rbac.authorization.k8s.io/v1", kind, f"{plan.name}-users", **content)


_Made = tuple[str, str, str, Sequence[str], str]
_MADE: tuple[_Made, ...] = (
    ("", "v1", "pods", ["CREATE"], "[object.spec]"),  # the starter chooses the node later
    ("batch", "v1", "jobs", ["CREATE", "UPDATE"], "[object.spec.template.spec]"),
    (
        *("jobset.x-k8s.io", "v1alpha2", "jobsets", ["CREATE", "UPDATE"]),
        "object.spec.replicatedJobs.map(each, each.template.spec.template.spec)",
    ),
    ("", "v1", "services", ["CREATE", "UPDATE"], "[]"),
)
_MADE_OF: Mapping[str, tuple[_Made, ...]] = {
    _TRAINER: (
        ("trainer.kubeflow.org", "v1alpha1", "trainjobs", ["CREATE", "UPDATE"], "[]"),
        ("trainer.kubeflow.org", "v1alpha1", "trainingruntimes", ["CREATE", "UPDATE"], "[]"),
    ),
    "mpi-operator": (("kubeflow.org", "v2beta1", "mpijobs", ["CREATE", "UPDATE"], "[]"),),
}
"""Kinds that a team may create, always or with an add-on, and the path to the specs of their pods; none if others
create the pods."""
NAMES_NODE = "pods of teams must not name a node: they would bypass the queue, and taints of that node"
TOLERATES = (
    "pods of teams must not tolerate cordons, taints of stampworks or all taints: they would run on nodes "
    "that are held "
    "or not proven"
)
CLASSED = (
    f"pods of teams must not have a priority class, by which they would evict other pods: give priority by the "
    f"label {PRIORITY_LABEL}"
)
_OWNED = "objects of teams must not name an owner: they would bypass the queue as parts of it"
MADE_AGAIN = "the JobSet of a TrainJob is deleted with it: deleted alone, it would be made again and bypass the queue"
_LED_TO = "services of teams must not have externalIPs: they would receive traffic that nodes send there"
"""Why the server refuses such pods, jobs and services."""
_ANY_TAINT, _CORDONED, _OF_OURS = "", "node.kubernetes.io/unschedulable", "stampworks/"
_KEPT_AWAY = f"each.?key.orValue('') in ['{_ANY_TAINT}', '{_CORDONED}'] || each.key.startsWith('{_OF_OURS}')"
# A cluster-wide default class is written into pods, and not into templates.
_UNCLASSED = (
    "pod.?priorityClassName.orValue('') == '' || "
    "(request.resource.resource == 'pods' && !pod.priorityClassName.startsWith('system-'))"
)
_BEFORE = "(request.operation == 'UPDATE' ? oldObject.metadata.?ownerReferences.orValue([]) : [])"
# Administrators may change what a policy refuses: `system:masters` on our control plane. On EKS they are the creator
# and users with its policy, who are in no group.
_CONTROLLER = (
    "(request.userInfo.username.startsWith('system:') || authorizer.group('admissionregistration.k8s.io')"
    ".resource('validatingadmissionpolicies').check('update').allowed())"
)
_ADMITTED = (
    ("variables.pods.all(pod, pod.?nodeName.orValue('') == '')", NAMES_NODE),
    (f"variables.pods.all(pod, !pod.?tolerations.orValue([]).exists(each, {_KEPT_AWAY}))", TOLERATES),
    (f"variables.pods.all(pod, {_UNCLASSED})", CLASSED),
    (f"object.metadata.?ownerReferences.orValue([]) == {_BEFORE} || {_CONTROLLER}", _OWNED),
    ("request.resource.resource != 'services' || object.spec.?externalIPs.orValue([]) == []", _LED_TO),
    (
        "request.resource.resource != 'trainingruntimes' || !has(object.spec.template.spec.ttlSecondsAfterFinished)",
        MADE_AGAIN,
    ),
)
_STAYS = (
    f"{_CONTROLLER} || !oldObject.metadata.?ownerReferences.orValue([]).exists(each, each.kind == 'TrainJob')",
    MADE_AGAIN,
)


def kept_away(key: str) -> bool:
    """Whether the server refuses a team's pod that tolerates taints with this key."""
    return key in (_ANY_TAINT, _CORDONED) or key.startswith(_OF_OURS)


def _admission(plan: Plan) -> Iterator[Manifest]:
    """Yield the admission policy of teams: taints do not stop a pod that names its node or tolerates them, and queues
    do not stop an object that belongs to another one."""
    added = [each.name for each in plan.scheduler.addons]
    made = [*_MADE, *(each for name in added for each in _MADE_OF.get(name, ()))]
    *first, (*_, last) = made
    found = "".join(f"request.resource.resource == '{each}' ? {pods} : " for _, _, each, _, pods in first)
    rules = [(group, version, resource, verbs) for group, version, resource, verbs, _ in made]
    yield from _policy(plan, "teams", rules, _ADMITTED, variables=[{"name": "pods", "expression": found + last}])
    if _TRAINER in added:  # Trainer recreates missing parts, even of an ended job
        yield from _policy(plan, "ended", [("jobset.x-k8s.io", "v1alpha2", "jobsets", ["DELETE"])], [_STAYS])
    users = [{"name": "users", "expression": f"!{_CONTROLLER}"}]
    judged = {"matchConditions": users, "variables": identity.variables(plan)}
    yield from _policy(plan, "users", identity.rules(added), identity.validations(added), **judged)


def _policy(
    plan: Plan,
    name: str,
    rules: Iterable[tuple[str, str, str, Sequence[str]]],
    validations: Iterable[tuple[str, str]],
    **more: Any,
) -> Iterator[Manifest]:
    """Return the policy by which the server refuses objects in the namespaces of teams."""
    api, name = "admissionregistration.k8s.io/v1", f"{plan.name}-{name}"
    of_teams = {
        "key": "kubernetes.io/metadata.name",
        "operator": "In",
        "values": sorted(team.name for team in teams(plan)),
    }
    spec = {
        "failurePolicy": "Fail",
        # Write all defaults of the server: otherwise a second apply conflicts with them.
        "matchConstraints": {
            "matchPolicy": "Equivalent",
            "namespaceSelector": {"matchExpressions": [of_teams]},
            "objectSelector": {},
            "resourceRules": [
                {
                    "apiGroups": [group],
                    "apiVersions": [version],
                    "operations": verbs,
                    "resources": [resource],
                    "scope": "*",
                }
                for group, version, resource, verbs in rules
            ],
        },
        **more,
        "validations": [{"expression": each, "message": why} for each, why in validations],
    }
    yield _object(api, "ValidatingAdmissionPolicy", name, spec=spec)
    denies = {"policyName": name, "validationActions": ["Deny"]}
    yield _object(api, "ValidatingAdmissionPolicyBinding", name, spec=denies)


def _object(version: str, kind: str, name: str, namespace: str = "", /, **content: Any) -> Manifest:
    labels = OURS | content.pop("labels", {})
    where = {"namespace": namespace} if namespace else {}
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, **where, "labels": labels}, **content}
