"""Effects of a change: every declared field, its policy, affected jobs, and the order."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import pytest
from stampworks import catalog, planning
from stampworks.changes.charges import Charge, Cost
from stampworks.changes.review import Review
from stampworks.declaration import Lock, LockedImage, change_of, load_value
from stampworks.plan import Account, Plan, Queue, from_dict, to_dict
from stampworks.planning.build import launching
from stampworks.planning.changes.review import ReviewedStack, review
from stampworks.planning.cost import cost
from stampworks.planning.rules.findings import Finding

from tests.planning.test_fingerprint import IDENTITY, OTHERS, PLAN, changed, planned

RENAMED = {"pools[].name", "storage[].name", "users[].name", "groups[].name", "scheduler.queues[].name"}
RENAMED |= {"scheduler.priorities[].name", "scheduler.accounts[].name", "tags[].name"}
"""A renamed entry counts as removed and added, which is a change of its list."""


def reviewed(base: Plan | None, head: Plan | None, **more: Any) -> Review:
    return review("one", ReviewedStack("a", base, contents={}), ReviewedStack("b", head, contents={}), **more)


def of(path: str, value: Any) -> Review:
    return reviewed(PLAN, planned(changed(path, value)))


@pytest.mark.parametrize(("path", "value"), (OTHERS | IDENTITY).items())
def test_every_declared_field_has_its_change(path: str, value: Any) -> None:
    """A new field that planning/changes/policies.py does not know is missing here."""
    wanted = path.rpartition("[]")[0] if path in RENAMED else path
    found = {each.field: each.policy for each in of(path, value).changes}
    assert wanted in found
    if path != "storage[].name":  # a protected one cannot be removed
        assert found[wanted] == change_of(wanted)


@pytest.mark.parametrize(("path", "value"), (OTHERS | IDENTITY).items())
def test_no_change_is_of_unknown_effect(path: str, value: Any) -> None:
    """Every declarable change has a policy."""
    assert all(each.policy for each in of(path, value).changes)


def test_nothing_changes() -> None:
    """A review of the same plan is empty, and a pass."""
    found = reviewed(PLAN, planned(changed("proof.level", "standard")))
    assert found.verdict == "pass"
    assert (found.changes, found.following, found.order, found.restart, found.unknown) == ((), (), (), (), ())
    assert (found.expectations, found.rules) == ((), ())


def test_a_protected_storage_may_not_go() -> None:
    """Deleting it needs a declaration first, and no cost is computed for a refused change."""
    found = of("storage[].name", "data")
    [gone] = [each for each in found.changes if each.difference.b is None]
    assert (gone.written, gone.policy, found.verdict) == ("storage[shared]", "refuse", "fail")
    assert found.order == ()


@pytest.mark.parametrize(
    ("before", "after", "gone"),
    [
        (["research", "product"], ["research"], "product"),
        ([], ["research"], "jobs"),
        (["research"], [], "research"),
        (["research"], ["research", "product"], ""),
    ],
    ids=["a team", "everybody", "the last team", "one more team"],
)
def test_a_team_goes_with_its_namespace(before: list[str], after: list[str], gone: str) -> None:
    """On Kubernetes this is refused while gangs run in it; on Slurm jobs continue."""

    def of_accounts(names: list[str], kind: Literal["slurm", "kubernetes"]) -> Plan:
        accounts = tuple(Account(name, (), 1, 0) for name in names)
        return dataclasses.replace(PLAN, scheduler=dataclasses.replace(PLAN.scheduler, kind=kind, accounts=accounts))

    found = reviewed(of_accounts(before, "kubernetes"), of_accounts(after, "kubernetes"))
    [change] = found.changes
    what = f"namespace {gone} is deleted with everything in it; `up` refuses while a gang is in it"
    assert (change.policy, change.why) == ("in place", what if gone else "")
    removed = [each.text for each in found.order if each.stage == "removal"]
    assert removed == ([f"namespace {gone}, and all that is in it"] if gone else [])
    [change] = reviewed(of_accounts(before, "slurm"), of_accounts(after, "slurm")).changes
    assert change.why == ""


@pytest.mark.parametrize(("kind", "why"), [("kubernetes", "`up` refuses while a gang is in it"), ("slurm", "")])
def test_a_queue_goes_without_gangs(kind: Literal["slurm", "kubernetes"], why: str) -> None:
    """A new queue has no gangs."""

    def of_queues(*names: str) -> Plan:
        queues = tuple(Queue(name, ("gpu",), name == "main", 0, "") for name in names)
        return dataclasses.replace(PLAN, scheduler=dataclasses.replace(PLAN.scheduler, kind=kind, queues=queues))

    [change] = reviewed(of_queues("main", "short"), of_queues("main")).changes
    assert (change.policy, change.why) == ("in place", f"is removed from each namespace; {why}" if why else "")
    [change] = reviewed(of_queues("main"), of_queues("main", "short")).changes
    assert change.why == ""


def test_an_add_on_comes_without_a_yes_and_goes_with_one() -> None:
    """Its objects are deleted with it; before its installation there were none."""

    def plan(**addons: bool) -> Plan:
        pools = [{"name": "gpu", "machine": "sim-h100", "count": 2}]
        scheduler = {"kind": "kubernetes", "addons": addons}
        return planned({"version": 1, "name": "test", "cloud": "local", "pools": pools, "scheduler": scheduler})

    without, with_it = plan(), plan(trainer=True)
    [comes] = reviewed(without, with_it).changes
    [goes] = reviewed(with_it, without).changes
    assert (comes.field, comes.policy, comes.needs_approval) == ("scheduler.addons", "in place", False)
    assert (goes.field, goes.policy, goes.needs_approval) == ("scheduler.addons", "refuse", True)


def test_growth_stops_nobody() -> None:
    """New nodes join; the number of nodes out of service follows, and is no separate change."""
    found = of("pools[].count", 40)
    assert [each.written for each in found.changes] == ["pools[gpu].count"]
    assert [(each.group, each.count) for each in found.join] == [("gpu", 36)]
    assert found.restart == found.leave == ()
    assert [each.stage for each in found.order] == ["nodes", "playbook", "proof"]


def test_a_release_rolls_head_first() -> None:
    """All nodes are renewed, in waves."""
    newer = dataclasses.replace(PLAN, release=dataclasses.replace(PLAN.release, name="2027.02", versions=()))
    found = reviewed(PLAN, newer)
    assert [(each.written, each.policy, each.restarts) for each in found.changes] == [("release", "roll", 6)]
    assert [(each.group, each.count) for each in found.restart] == [("head", 1), ("gpu", 4), ("cpu", 1)]
    assert [each.stage for each in found.order] == ["roll", "roll", "roll", "playbook", "proof"]
    assert "gpu-[001-004] in waves of at most 1" in found.order[1].text


@pytest.mark.parametrize(
    ("level", "waits"), [("quick", ", and new ones take none before the proof at the end"), ("none", "")]
)
def test_where_a_cloud_rolls_nodes_itself_fewer_and_fewer_take_pods(level: str, waits: str) -> None:
    """Nodes of the cluster's own pods take pods at once."""

    def on_eks(pods: int) -> Plan:
        pools = [{"name": "gpu", "machine": "p5en", "count": 16, "zone": "us-west-2b"}]
        scheduler = {"kind": "kubernetes", "pods_per_node": pods}
        of = {"version": 1, "name": "k", "cloud": "aws", "region": "us-west-2", "proof": {"level": level}}
        return planning.plan(load_value({**of, "pools": pools, "scheduler": scheduler}, "test"))

    rolled = {each.text for each in reviewed(on_eks(110), on_eks(64)).order if each.stage == "roll"}
    evicts = "at a time, by the cloud itself: their pods are evicted"
    assert rolled == {f"2 of head 1 {evicts}", f"16 of gpu 4 {evicts}{waits}"}


def locked(image: str, version: str, **fields: Any) -> Plan:
    """Return a plan on EKS with a lock's values."""
    pools = [{"name": "gpu", "machine": "p5en", "count": 16, "zone": "us-west-2b"}]
    data = {"version": 1, "name": "k", "cloud": "aws", "region": "us-west-2", "scheduler": {"kind": "kubernetes"}}
    source = load_value({**data, "pools": pools, **fields}, "test")
    plan = planning.plan(source)
    images = {group.launch.published_image: LockedImage(image, "", "") for group in plan.groups if group.launch}
    parts = {launching.locked(each.name, plan.release): version for each in plan.scheduler.parts}
    return planning.plan(dataclasses.replace(source, lock=Lock(plan.region, images if image else {}, parts=parts)))


def test_changes_of_a_lock() -> None:
    """Another image replaces nodes; another version of a part of EKS is installed in place."""
    found = reviewed(locked("ami-1", "v1"), locked("ami-2", "v1"))
    assert {each.written: (each.policy, each.restarts) for each in found.changes} == {
        "groups[head].launch.image": ("roll", 2),
        "groups[gpu].launch.image": ("roll", 16),
    }
    assert (found.verdict, found.following) == ("pass", ())
    found = reviewed(locked("ami-1", "v1"), locked("ami-1", "v2"))
    names = ("coredns", "eks-node-monitoring-agent", "eks-pod-identity-agent", "kube-proxy", "vpc-cni")
    assert {each.written: (each.policy, each.restarts) for each in found.changes} == {
        f"scheduler.parts[{name}].version": ("in place", 0) for name in names
    }
    assert found.verdict == "pass"


@pytest.mark.parametrize("before", [[], [{"name": "cost-centre", "value": "b"}]], ids=["one more", "another value"])
def test_other_tags_replace_managed_nodes(before: list[dict[str, str]]) -> None:
    """Clouds that create nodes from a template replace them; other machines are tagged while they run."""
    after = [{"name": "cost-centre", "value": "a"}]
    [change] = (found := reviewed(locked("ami-1", "v1", tags=before), locked("ami-1", "v1", tags=after))).changes
    assert (change.policy, change.restarts) == ("roll", 18)
    assert [each.stage for each in found.order] == ["roll", "roll", "proof"]
    slurm = [locked("ami-1", "v1", tags=each, scheduler={"kind": "slurm"}) for each in (before, after)]
    [change] = reviewed(*slurm).changes
    assert (change.policy, change.restarts) == ("in place", 0)


def test_a_first_lock_restarts_nobody() -> None:
    """Without a lock no cluster was created."""
    found = reviewed(locked("", ""), locked("ami-1", "v1"))
    assert {(each.policy, each.restarts) for each in found.changes} == {("in place", 0)}


def test_a_lock_that_follows_a_release_is_no_change_beside_it() -> None:
    found = reviewed(locked("ami-1", "v1"), locked("ami-2", "v1", scheduler={"kind": "slurm"}))
    assert not [each.written for each in found.changes if "launch" in each.written]


def test_other_versions_of_the_same_release_are_a_change_beside_others() -> None:
    """In a plan of an older catalog, changes of its release are listed beside other changes."""
    older = dataclasses.replace(PLAN, release=dataclasses.replace(PLAN.release, versions=()))
    found = reviewed(older, planned(changed("pools[].count", 5)))
    assert {each.written for each in found.changes} == {"release", "pools[gpu].count"}


def test_another_order_of_pools_moves_their_nodes() -> None:
    """Addresses follow the order, so that all nodes are renewed; the head keeps its own."""
    data = changed("pools[].count", 4)
    data["pools"].reverse()
    found = reviewed(PLAN, planned(data))
    [change] = found.changes
    assert (change.written, change.policy, change.restarts) == ("pools", "replace", 5)
    assert {each.group for each in found.restart} == {"gpu", "cpu"}


def test_undeclared_change_is_unknown() -> None:
    """A plan that was edited by hand is no pass."""
    data = to_dict(PLAN)
    data["network"]["gateway"] = "10.77.0.9"
    found = reviewed(PLAN, from_dict(Plan, data))
    assert [(each.written, each.policy) for each in found.changes] == [("network.gateway", None)]
    assert found.verdict == "unknown"


def test_a_stack_is_new() -> None:
    """Everything is created; findings that are unknown are no pass."""
    found = reviewed(None, PLAN)
    assert found.kind == "created"
    assert {each.policy for each in found.changes} == {"create"}
    assert [(each.group, each.count) for each in found.join] == [("head", 1), ("gpu", 4), ("cpu", 1)]
    assert [each.stage for each in found.order] == ["network", "storage", "head", "nodes", "playbook", "proof"]
    assert all(each.before is None for each in found.expectations)


def test_a_stack_goes() -> None:
    """Its resources may be protected."""
    found = reviewed(PLAN, None)
    refused = [each.written for each in found.changes if each.policy == "refuse"]
    assert (found.kind, found.verdict, refused) == ("destroyed", "fail", ["pools[head]", "storage[shared]"])
    data = changed("storage[].protect", False)
    data["scheduler"]["protect"] = False
    assert reviewed(planned(data), None).verdict == "pass"


def finding(verdict: Any, text: str = "so it is") -> Finding:
    return Finding("some.rule", verdict, text, "do something")


@pytest.mark.parametrize(
    ("before", "after", "verdict", "said"),
    [
        ("pass", "pass", "pass", 0),
        ("pass", "fail", "fail", 1),
        ("pass", "unknown", "unknown", 1),
        ("unknown", "unknown", "pass", 0),
        ("fail", "fail", "pass", 0),
        ("fail", "pass", "pass", 1),
    ],
)
def test_rules_count_when_they_say_something_else(before: str, after: str, verdict: str, said: int) -> None:
    """Earlier failures and unknowns are no fault of the change."""
    found = review(
        "one", ReviewedStack("a", PLAN, (finding(before),), {}), ReviewedStack("b", PLAN, (finding(after),), {})
    )
    assert (found.verdict, len(found.rules)) == (verdict, said)


def test_undecided_rules_are_listed() -> None:
    """Only unknowns beside a change are listed: unchanged ones are not part of the review."""
    one, more = ReviewedStack("a", PLAN, (finding("unknown"),), {}), planned(changed("pools[].count", 5))
    assert review("one", one, one).unknown == ()
    assert review("one", one, ReviewedStack("b", more, (finding("unknown"),), {})).unknown == ()
    other = dataclasses.replace(finding("unknown"), text="so it is now")
    assert review("one", one, ReviewedStack("b", more, (other,), {})).unknown == ("some.rule: so it is now",)
    assert review(
        "one", ReviewedStack("a", PLAN, (), {}), ReviewedStack("b", more, (finding("unknown"),), {})
    ).unknown == ("some.rule: so it is",)


def test_a_warning_is_no_fail() -> None:
    """A warning is shown, and the cluster works."""
    warning = dataclasses.replace(finding("fail"), severity="warning")
    found = review("one", ReviewedStack("a", PLAN, (), {}), ReviewedStack("b", PLAN, (warning,), {}))
    assert (found.verdict, [each.after for each in found.rules]) == ("pass", ["warn"])


def test_a_rule_that_is_still_broken_otherwise_is_a_fail() -> None:
    """Other numbers mean that it concerns the change."""
    found = review(
        "one",
        ReviewedStack("a", PLAN, (finding("fail"),), {}),
        ReviewedStack("b", PLAN, (finding("fail", "worse"),), {}),
    )
    assert found.verdict == "fail"


def test_files_of_roles() -> None:
    """The content of a role may have changed under the same name, which a plan does not record."""
    one, other = (ReviewedStack(name, PLAN, (), {("roles", "motd"): name}) for name in "ab")
    found = review("one", one, other)
    assert [(each.written, each.policy) for each in found.changes] == [
        ("content of the files of extras.roles[motd]", "in place")
    ]
    found = review("one", one, ReviewedStack("b", PLAN))
    assert found.verdict == "unknown"
    assert found.unknown[0].startswith("whether the files of motd change: b is a plan")


def priced(region: str, purchase: Any, count: int, machine: str = "p5") -> Plan:
    """A plan of another cloud, with that many nodes."""
    pool = PLAN.pools[0]
    row = dataclasses.replace(pool.machine, name=machine, simulated=False)
    group = dataclasses.replace(pool, machine=row, count=count, purchase=purchase)
    bare = dataclasses.replace(PLAN.controller.machine, simulated=False)
    head = dataclasses.replace(PLAN.controller, machine=bare, purchase="on-demand")
    return dataclasses.replace(PLAN, cloud="aws", region=region, groups=(head, group), storage=())


def test_cost_of_more_nodes_is_known_without_the_sum() -> None:
    """The head has no price and stays: the difference is that of the nodes, from a price with a source."""
    price = catalog.price("aws", "p5", "us-east-1", "on-demand")
    assert isinstance(price, catalog.Price)
    found = reviewed(priced("us-east-1", "on-demand", 4), priced("us-east-1", "on-demand", 6))
    assert found.after.usd_per_hour is None
    assert found.usd_per_hour == pytest.approx(2 * price.usd_per_hour)
    [pool] = [each for each in found.after.charges if each.what == "pool gpu"]
    assert price.source in pool.why
    assert not any("head" in each for each in found.unknown)  # the same as before
    [made] = [each for each in reviewed(None, priced("us-east-1", "on-demand", 4)).unknown if "head" in each]
    assert made.startswith("costs of head: no price of")


@pytest.mark.parametrize(
    ("region", "purchase", "sold"),
    [("atlantis", "on-demand", True), ("us-east-1", "reserved", True), ("us-east-1", "owned", False)],
)
def test_a_price_that_nobody_has_published_is_unknown(region: str, purchase: str, sold: bool) -> None:
    """The price is never zero."""
    found = reviewed(priced(region, purchase, 4), priced(region, purchase, 6))
    assert (found.after.usd_per_hour, found.usd_per_hour) == (None, None)
    [pool] = [each for each in found.after.charges if each.what == "pool gpu"]
    assert (pool.usd_per_hour, pool.sold) == (None, sold)
    assert any("pool gpu" in each for each in found.unknown) is sold


def test_a_plan_of_a_real_cloud() -> None:
    """The rate of the rails follows from the machine, and is no separate decision; nodes keep their names."""
    declared = {"version": 1, "name": "big", "cloud": "aws", "region": "us-east-1"}
    one, other = (
        planning.plan(load_value({**declared, "pools": [{"name": "gpu", "machine": each, "count": 16}]}, "test"))
        for each in ("p5", "p5en")
    )
    found = reviewed(one, other)
    assert [(each.written, each.policy) for each in found.changes] == [("pools[gpu].machine", "replace")]
    names = tuple(f"gpu-{number:03d}" for number in range(1, 17))
    assert [(each.group, each.count, each.names) for each in found.restart] == [("gpu", 16, names)]
    assert isinstance(found.usd_per_hour, float)


def test_a_sum_is_one_of_all_charges() -> None:
    """An empty sum is zero; one unknown charge makes it unknown."""
    one, other = Charge("a", "a", 1.5, 1.5, "published"), Charge("b", "b", None, None, "nobody knows")
    assert (Cost(()).usd_per_hour, Cost((one, one)).usd_per_hour, Cost((one, other)).usd_per_hour) == (0, 3, None)


def test_finding_of_a_removed_pool_blames_no_other() -> None:
    """A wrong pool is removed, and the other pools are unchanged."""
    one, other = (
        dataclasses.replace(finding(verdict, f"of {pool}"), subject=pool)
        for verdict, pool in (("fail", "gpu"), ("pass", "cpu"))
    )
    found = review("one", ReviewedStack("a", PLAN, (one, other), {}), ReviewedStack("b", PLAN, (other,), {}))
    assert [(each.before, each.after, each.text) for each in found.rules] == [("fail", None, "of gpu")]
    found = review("one", ReviewedStack("a", PLAN, (other, one), {}), ReviewedStack("b", PLAN, (one,), {}))
    assert (found.rules, found.verdict) == ((), "pass")


def stored(**options: Any) -> Plan:
    storage = {"name": "shared", "kind": "fsx-lustre", "tier": "PERSISTENT_2 SSD", "capacity": 9600, "mount": "/shared"}
    declared = {"version": 1, "name": "big", "cloud": "aws", "region": "us-east-1"}
    pools = [{"name": "gpu", "machine": "p5", "count": 2}]
    return planning.plan(load_value({**declared, "pools": pools, "storage": [{**storage, **options}]}, "test"))


def test_storage_throughput_is_billed() -> None:
    """Faster storage of the same capacity costs more, even if the price is unknown."""
    found = reviewed(stored(mbps_per_tib=125), stored(mbps_per_tib=1000))
    before, after = (
        next(each for each in cost.charges if each.what == "storage shared") for cost in (found.before, found.after)
    )
    assert before.basis != after.basis
    assert isinstance(before.usd_per_hour, float)
    assert after.usd_per_hour is None
    assert found.usd_per_hour is None
    assert reviewed(stored(mbps_per_tib=125), stored(mbps_per_tib=125)).usd_per_hour == 0


@pytest.mark.parametrize(
    "option",
    [
        {"mbps_per_tib": 1},
        {"throughput_mbps": 1},
        {"read_cache_gib": 1},
        {"metadata_iops": 1},
        {"efa": True},
        {"features": ("backups",)},
    ],
)
def test_every_option_of_a_storage_is_in_what_it_costs(option: dict[str, Any]) -> None:
    """Otherwise a change of the option would seem to cost nothing."""
    plan = stored(mbps_per_tib=125)
    other = dataclasses.replace(plan, storage=(dataclasses.replace(plan.storage[0], **option),))
    bases = {each.basis for one in (plan, other) for each in cost(one).charges if each.what == "storage shared"}
    assert len(bases) == 2


def test_equal_bases_of_which_one_has_a_price() -> None:
    """A price that a newer catalog adds is no difference."""
    one, other = Charge("a", "a", None, None, "nobody knows"), Charge("a", "a", 1.5, 1.5, "published")
    found = dataclasses.replace(reviewed(PLAN, PLAN), before=Cost((one,)), after=Cost((other,)))
    assert found.usd_per_hour is None


def test_other_leaves_are_cabled_anew() -> None:
    """Oversubscription puts more nodes on a leaf, unless their number is declared."""

    def on_premises(oversubscription: int, **fabric: Any) -> ReviewedStack:
        pools = [{"name": "gpu", "machine": "dgx-h100", "count": 256}]
        data = {"version": 1, "name": "test", "cloud": "hosts", "network": {"cidr": "10.0.0.0/8"}, "pools": pools}
        fabric |= {"oversubscription": oversubscription}
        written = frozenset({f"fabric.{name}" for name in fabric})
        plan = planning.plan(load_value({**data, "fabric": fabric}, "test"))
        return ReviewedStack("it", plan, contents={}, written=written)

    found = review("test", on_premises(1), on_premises(2))
    [change] = found.changes
    assert (change.field, change.policy, change.restarts) == ("fabric.oversubscription", "roll", 256)
    assert change.why == "a leaf has 40 nodes instead of 32: nodes get other cables"
    [first, *_] = found.order  # the head has no rails, and disks do not depend on cables
    assert (first.stage, first.text) == (
        "roll",
        "gpu-[001-256] in waves of at most 64, each within one leaf: their jobs end first, then other cables and a "
        "proof",
    )
    [change] = review("test", on_premises(1, leaf_nodes=32), on_premises(1, leaf_nodes=16)).changes
    assert (change.policy, change.restarts) == ("roll", 256)
    assert change.why == "a leaf has 16 nodes instead of 32: nodes get other cables"
    [change] = review("test", on_premises(1, leaf_nodes=32), on_premises(2, leaf_nodes=32)).changes
    assert (change.field, change.policy) == ("fabric.oversubscription", "in place")


def test_features_in_another_order_are_no_change() -> None:
    """A sorted list causes no warning about lost data."""
    names = ["backups", "compression"]
    one, other = (stored(mbps_per_tib=500, features=order) for order in (names, names[::-1]))
    assert reviewed(one, other).changes == ()


@pytest.mark.parametrize(
    ("before", "after", "policy", "why"),
    [
        (["compression"], ["backups", "root-squash"], "in place", ""),
        (
            ["root-squash"],
            ["backups"],
            "refuse",
            "its provider sends nothing when root squash goes",
        ),
    ],
)
def test_each_feature_of_a_file_system_is_ruled_by_its_vendor(
    before: list[str], after: list[str], policy: str, why: str
) -> None:
    """Lost or unsupported features are refused with the reason, whatever else changes."""
    [change] = reviewed(*(stored(mbps_per_tib=500, features=each) for each in (before, after))).changes
    assert (change.field, change.policy) == ("storage[].features", policy)
    assert change.why.startswith(why)
    assert bool(change.why) == bool(why)
