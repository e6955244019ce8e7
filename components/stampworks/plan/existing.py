"""The parts of a plan that exist already and belong to the account's owners."""

from __future__ import annotations

from stampworks.plan.whole import Plan


def existing_parts(plan: Plan) -> list[tuple[str, str]]:
    """Return the purpose and the id of each existing part. No step changes or deletes any of them."""
    found: list[tuple[str, str]] = []
    if existing := plan.network.existing:
        found.append(("network", existing.vpc))
        found += [(f"subnet {each.name}", existing.subnet(each.name).id) for each in plan.network.subnets]
        groups = {"security group nodes": existing.nodes_group, "security group storage": existing.storage_group}
        found += [(what, id_) for what, id_ in groups.items() if id_]
    found += [(f"storage {each.name}", each.existing) for each in plan.storage if each.existing]
    account = plan.account
    terms = {
        "key": account.key,
        "permissions boundary": account.permissions_boundary,
        "instance profile of the head": account.head_profile,
        "instance profile of nodes": account.nodes_profile,
    }
    return [*found, *((what, id_) for what, id_ in terms.items() if id_)]
