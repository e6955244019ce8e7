"""Checks between fields, and formats of single values."""

from __future__ import annotations

import pytest

from .conftest import EXAMPLE, Complaint, changed, outline

VALUES = {
    "pool-head": ("name: cpu", "name: head", "8:12: pools[1].name: 'head' is the name of the controller"),
    "name-too-long": ("name: local", f"name: {'a' * 21}", f"2:7: name: '{'a' * 21}' is not a legal name"),
    "name-ends-in-dash": ("name: local", "name: local-", "2:7: name: 'local-' is not a legal name"),
    "name-with-line-end": ("name: local", 'name: "a\\n"', "2:7: name: 'a\\n' is not a legal name"),
    "queue-default": (
        "name: short",
        "name: default",
        "24:14: scheduler.queues[1].name: Slurm reserves 'default' and would make no queue of it",
    ),
    "user-of-the-system": ("name: bob", "name: slurm", "15:12: users[1].name: 'slurm' is an account of the system"),
    "user-with-blank": ("name: bob", "name: b ob", "15:12: users[1].name: 'b ob' is not a legal login"),
    "uid-of-the-system": ("uid: 2002", "uid: 999", "15:22: users[1].uid: must be from 1000 to 60000, not 999"),
    "uid-too-high": ("uid: 2002", "uid: 60001", "15:22: users[1].uid: must be from 1000 to 60000, not 60001"),
    "cidr-no-range": ("10.77.0.0/16", "ten", "5:17: network.cidr: 'ten' is not an IPv4 address range"),
    "cidr-no-prefix": ("10.77.0.0/16", "10.77.0.0", "5:17: network.cidr: '10.77.0.0' is not an IPv4 address range"),
    "cidr-public": ("10.77.0.0/16", "8.8.0.0/16", "5:17: network.cidr: '8.8.0.0/16' is not a private range"),
    "cidr-of-6": ("10.77.0.0/16", "'fd00::/64'", "5:17: network.cidr: 'fd00::/64' is not an IPv4 address range"),
    "cidr-too-small": ("10.77.0.0/16", "10.77.0.0/29", "5:17: network.cidr: '10.77.0.0/29' has only 8 addresses"),
    "mount-relative": ("mount: /data", "mount: data", "12:42: storage[1].mount: 'data' is not an absolute path"),
    "mount-climbs": ("mount: /data", "mount: /a/..", "12:42: storage[1].mount: '/a/..' is not a plain path"),
    "mount-root": ("mount: /data", "mount: /", "12:42: storage[1].mount: '/' is not a plain path"),
    "mount-system-itself": ("mount: /data", "mount: /etc", "12:42: storage[1].mount: /etc belongs to the node itself"),
    "mount-system": ("mount: /data", "mount: /var/x", "12:42: storage[1].mount: /var belongs to the node itself"),
    "count-too-high": ("count: 4", "count: 4097", "7:43: pools[0].count: must be from 1 to 4096, not 4097"),
    "one-is-not-true": ("protect: true", "protect: 1", "11:62: storage[0].protect: must be true or false, not 1"),
    "true-is-not-one": (
        "oversubscription: 1",
        "oversubscription: true",
        "9:81: fabric.oversubscription: must be 1, 2 or 4, not true",
    ),
    "version-in-quotes": ("version: 1", 'version: "1"', "1:10: version: must be 1, not '1'"),
    "version-true": ("version: 1", "version: true", "1:10: version: must be 1, not true"),
    "octal": ("count: 4", "count: 0o4", "7:43: pools[0].count: must be a whole number, not '0o4'"),
    "list-is-a-word": ("pools: [cpu]", "pools: cpu", "24:28: scheduler.queues[1].pools: must be a list, not 'cpu'"),
    "entry-is-a-word": ("{name: bob, uid: 2002}", "bob", "15:5: users[1]: must be a mapping, not 'bob'"),
    "empty-list": ("pools: [cpu]", "pools: []", "24:21: scheduler.queues[1].pools: is empty"),
    "word-of-a-closed-set": (
        "mount: /data}",
        "mount: /data, features: [backup]}",
        "12:60: storage[1].features[0]: must be backups, compression, root-squash, data-repository or hdd-read-cache, "
        "not 'backup'",
    ),
    "nothing-is-no-choice": (
        "{cidr: 10.77.0.0/16}",
        "{cidr: 10.77.0.0/16, egress: NAT}",
        "5:39: network.egress: must be nat or none, not 'NAT'",
    ),
    "range-no-range": (
        "accounting: true",
        "accounting: true\n  api_from: [office]",
        "19:14: scheduler.api_from[0]: 'office' is not an IPv4 address range",
    ),
    "range-of-6": (
        "accounting: true",
        "accounting: true\n  api_from: ['::/0']",
        "19:14: scheduler.api_from[0]: '::/0' is not an IPv4 address range",
    ),
    "range-of-the-world": (
        "accounting: true",
        "accounting: true\n  api_from: [203.0.113.0/24, 0.0.0.0/0]",
        "19:30: scheduler.api_from[1]: '0.0.0.0/0' admits the whole internet",
    ),
    "range-of-half-the-world": (
        "accounting: true",
        "accounting: true\n  api_from: [128.0.0.0/1]",
        "19:14: scheduler.api_from[0]: '128.0.0.0/1' admits the whole internet",
    ),
    "range-private": (
        "accounting: true",
        "accounting: true\n  api_from: [10.77.0.0/16]",
        "19:14: scheduler.api_from[0]: '10.77.0.0/16' holds addresses that are not public",
    ),
    "range-around-private": (
        "accounting: true",
        "accounting: true\n  api_from: [172.0.0.0/8]",
        "19:14: scheduler.api_from[0]: '172.0.0.0/8' holds addresses that are not public",
    ),
    "range-by-an-address-inside": (
        "accounting: true",
        "accounting: true\n  api_from: [203.0.113.7/24]",
        "19:14: scheduler.api_from[0]: '203.0.113.7/24' is an address inside a range",
    ),
    "range-too-many": (
        "accounting: true",
        f"accounting: true\n  api_from: [{', '.join(f'203.0.113.{number}/32' for number in range(41))}]",
        "19:3: scheduler.api_from: has 41 entries, and 40 at most",
    ),
    "admin-nobody": (
        "accounting: true",
        "accounting: true\n  admins: ['a b']",
        "19:12: scheduler.admins[0]: 'a b' is not a role or user",
    ),
    "long-list": (
        "version: 1",
        f"version: 1\nbudget: {{notify: [{', '.join(f'a{number}@example.com' for number in range(11))}]}}",
        "2:10: budget.notify: has 11 entries, and 10 at most",
    ),
}

REFERENCES = {
    "queue-of-unknown-pool": (
        "pools: [cpu]",
        "pools: [cpus]",
        ["24:29: scheduler.queues[1].pools[0]: no pool is called 'cpus'"],
    ),
    "queue-names-pool-twice": (
        "pools: [cpu]",
        "pools: [cpu, cpu]",
        ["24:34: scheduler.queues[1].pools[1]: 'cpu' is named twice"],
    ),
    "told-twice": (
        "version: 1",
        "version: 1\nbudget: {notify: [ops@example.com, ops@example.com]}",
        ["2:36: budget.notify[1]: 'ops@example.com' is named twice"],
    ),
    "range-twice": (
        "accounting: true",
        "accounting: true\n  api_from: [203.0.113.0/24, 203.0.113.0/24]",
        ["19:30: scheduler.api_from[1]: '203.0.113.0/24' is named twice"],
    ),
    "admin-twice": (
        "accounting: true",
        "accounting: true\n  admins: [ops, ops]",
        ["19:17: scheduler.admins[1]: 'ops' is named twice"],
    ),
    "feature-twice": (
        "mount: /data}",
        "mount: /data, features: [backups, backups]}",
        ["12:69: storage[1].features[1]: 'backups' is named twice"],
    ),
    "two-queues-of-one-name": (
        "name: short",
        "name: main",
        ["24:14: scheduler.queues[1].name: a second queue is called 'main'"],
    ),
    "no-default-queue": (
        "default: true, ",
        "",
        ["22:3: scheduler.queues: no queue is the default"],
    ),
    "two-default-queues": (
        "pools: [cpu]",
        "pools: [cpu], default: true",
        ["24:44: scheduler.queues[1].default: a second queue is the default"],
    ),
    "jobs-and-no-jobs-in-one-queue": (
        "machine: sim-cpu, count: 1",
        "machine: sim-cpu, count: 1, scheduling_only: true",
        ["23:20: scheduler.queues[0].pools: a queue has pools for scheduling only, or pools that run jobs"],
    ),
    "unknown-priority-of-queue": (
        "priority: normal",
        "priority: norm",
        ["23:87: scheduler.queues[0].priority: no priority is called 'norm'"],
    ),
    "unknown-priority-to-preempt": (
        "preempts: [normal]",
        "preempts: [low]",
        ["27:46: scheduler.priorities[1].preempts[0]: no priority is called 'low'"],
    ),
    "preempts-itself": (
        "preempts: [normal]",
        "preempts: [urgent]",
        ["27:46: scheduler.priorities[1].preempts[0]: a priority cannot preempt itself"],
    ),
    "preempts-in-a-circle": (
        "weight: 100}",
        "weight: 100, preempts: [urgent]}",
        ["26:35: scheduler.priorities[0].preempts: normal preempts urgent preempts normal"],
    ),
    "unknown-account": (
        "accounts: [research]",
        "accounts: [reserch]",
        ["14:41: users[0].accounts[0]: no account is called 'reserch'"],
    ),
    "two-users-of-one-name": ("name: bob", "name: alice", ["15:12: users[1].name: a second user is called 'alice'"]),
    "two-users-of-one-uid": ("uid: 2002", "uid: 2001", ["15:22: users[1].uid: a second user has the uid 2001"]),
    "two-storages-of-one-name": (
        "name: data",
        "name: shared",
        ["12:12: storage[1].name: a second storage is called 'shared'"],
    ),
    "two-storages-on-one-mount": (
        "mount: /data",
        "mount: /shared",
        ["12:42: storage[1].mount: /shared is mounted twice"],
    ),
    "storage-inside-another": (
        "mount: /data",
        "mount: /shared/data",
        ["12:42: storage[1].mount: /shared/data lies inside another mount"],
    ),
}

TRAINING = {
    "another-layout": (
        "{layout: ring}",
        "29:20: training.layout: must be ddp, fsdp, hsdp or tp, not 'ring'",
    ),
    "degree-of-another-layout": (
        "{layout: fsdp, tensor_parallel: 2}",
        "29:43: training.tensor_parallel: it is of the layout tp, not of fsdp",
    ),
    "mlflow-is-nowhere": (
        "{tracker: {kind: mlflow}}",
        "29:28: training.tracker.kind: mlflow needs the url of its server",
    ),
    "files-are-nowhere-else": (
        "{tracker: {url: http://10.0.0.5:5000}}",
        "29:27: training.tracker.url: kind: files writes into the run's folder and uses no server",
    ),
    "a-login-in-a-url": (
        "{tracker: {kind: mlflow, url: 'http://bob:secret@10.0.0.5'}}",
        "29:41: training.tracker.url: the URL holds user or password, and a declaration keeps no secrets",
    ),
    "no-url": (
        "{tracker: {kind: mlflow, url: 'file:///x'}}",
        "29:41: training.tracker.url: 'file:///x' is not the URL of a server",
    ),
    "a-strange-experiment": (
        "{tracker: {experiment: -x}}",
        "29:34: training.tracker.experiment: '-x' is not a plain name",
    ),
    "checkpoints-on-one-node": (
        "{checkpoints: {directory: /scratch/run}}",
        "29:37: training.checkpoints.directory: /scratch/run is on no storage: each node would have a "
        "directory of its own",
    ),
    "checkpoints-somewhere": (
        "{checkpoints: {directory: runs}}",
        "29:37: training.checkpoints.directory: 'runs' is not an absolute path",
    ),
    "checkpoints-that-climb": (
        "{checkpoints: {directory: /shared/..}}",
        "29:37: training.checkpoints.directory: '/shared/..' is not a plain path",
    ),
}
NOT_SUPPRESSED = {
    "a wrong pool hides no other list": (
        [("count: 4", "count: x"), ("name: bob", "name: alice"), ("name: short", "name: main")],
        ["pools[0].count", "users[1].name", "scheduler.queues[1].name"],
    ),
    "a wrong entry keeps the places of the others": (
        [
            ("  - {name: alice, uid: 2001, accounts: [research]}", "  - alice"),
            ("name: bob", "name: root"),
        ],
        ["users[0]", "users[1].name"],
    ),
    "an entry that is no mapping hides no other": (
        [("{name: alice, uid: 2001, accounts: [research]}", "7"), ("name: bob", "name: root")],
        ["users[0]", "users[1].name"],
    ),
    "a list is not called empty because all of it is wrong": (
        [("count: 4", "count: 0"), ("count: 1}", "count: 0}")],
        ["pools[0].count", "pools[1].count"],
    ),
    "a reference is not judged while a name is unknown": (
        [("name: cpu", "name: CPU")],
        ["pools[1].name"],
    ),
    "accounts are not judged while accounting is unknown": (
        [("accounting: true", "accounting: maybe")],
        ["scheduler.accounting"],
    ),
    "an empty default is not judged while it is unknown": (
        [("default: true", "default: maybe")],
        ["scheduler.queues[0].default"],
    ),
    "no pool runs jobs": (
        [("count: 4}", "count: 4, scheduling_only: true}"), ("count: 1}", "count: 1, scheduling_only: true}")],
        ["pools", "scheduler.queues[0].default"],
    ),
    "a missing section of required fields hides nothing": (
        [("version: 1\n", ""), ("cloud: local\n", ""), ("uid: 2002", "uid: 2001")],
        ["version", "cloud", "users[1].uid"],
    ),
}


@pytest.mark.parametrize(("old", "new", "expected"), VALUES.values(), ids=VALUES)
def test_value(old: str, new: str, expected: str, complaint: Complaint) -> None:
    """A wrong value is named at its position, without other complaints."""
    problems = outline(complaint(changed(old, new)))
    assert expected in problems
    assert len(problems) == 1 or old.startswith("name:")  # references to a name are lost with it


@pytest.mark.parametrize(("old", "new", "expected"), REFERENCES.values(), ids=REFERENCES)
def test_reference(old: str, new: str, expected: list[str], complaint: Complaint) -> None:
    """A mismatch is reported at the field that has to change."""
    assert outline(complaint(changed(old, new))) == expected


@pytest.mark.parametrize(("section", "expected"), TRAINING.values(), ids=TRAINING)
def test_training(section: str, expected: str, complaint: Complaint) -> None:
    """Settings that would fail on the nodes only, and a login that would be readable in every plan."""
    text = complaint(f"{EXAMPLE}training: {section}\n")
    assert outline(text) == [expected]
    assert "hint: " in text


@pytest.mark.parametrize(("changes", "paths"), NOT_SUPPRESSED.values(), ids=NOT_SUPPRESSED)
def test_all_at_once(changes: list[tuple[str, str]], paths: list[str], complaint: Complaint) -> None:
    """Structural and other problems are reported together; consequences of unreadable fields are not."""
    text = EXAMPLE
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    assert [line.split(": ")[1] for line in outline(complaint(text))] == paths
