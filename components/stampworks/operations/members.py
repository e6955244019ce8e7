"""Present members of a cluster, from the cloud that it runs on."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from stampworks.clouds.contract import ElasticMembers, JoinedRenewal, Members, PoolMembers, Renewal
from stampworks.clouds.registry import CLOUDS, needed, stamped
from stampworks.operations.errors import InputError, OperationError, nearest
from stampworks.plan import Ending, Refusal, Roster, remedies


class MembersMissingError(OperationError):
    """A group has not become complete in time."""


def members(of: str, cluster: str, region: str) -> Roster:
    """The roster as the cloud reports it now, through its module `members`."""
    return cloud(of).members(cluster, region)


def endings(of: str, cluster: str, region: str) -> tuple[Ending, ...]:
    """Return the ends of the capacity of a cluster's nodes, as the cloud reports them now."""
    return cloud(of).endings(cluster, region)


def waiting(short: str, refused: Sequence[Refusal]) -> str:
    """Return the missing members, and the cloud's reasons."""
    return "; ".join([short, *(each.words for each in refused)])


def too_few(what: str, refused: Sequence[Refusal], else_: str = "") -> MembersMissingError:
    """Return the error at the end of a wait. `else_` is the hint if the cloud gives no reason."""
    return MembersMissingError("\n  ".join([what, *(each.words for each in refused)]), remedies(refused) or else_)


def retag(of: str, cluster: str, region: str, wanted: Mapping[str, str], gone: Collection[str]) -> None:
    """Set these tags on all running machines, and remove those in `gone`."""
    cloud(of).retag(cluster, region, wanted, gone)


def renewal(of: str) -> Renewal:
    """Return the cloud's module that finds and renews outdated nodes."""
    _expect_stamped(of)
    return needed(CLOUDS[of].renewal, "renewal", of)()


def cloud(name: str) -> Members:
    """Return the cloud's module that knows the nodes that run."""
    _expect_stamped(name)
    return needed(CLOUDS[name].members, "members", name)()


def elastic(of: str) -> ElasticMembers:
    """Return the cloud's module that ends nodes which start with the work."""
    _expect_stamped(of)
    return needed(CLOUDS[of].elastic, "elastic nodes", of).members()


def managed(of: str) -> PoolMembers:
    """Return the module of a cloud whose Kubernetes starts nodes itself."""
    _expect_stamped(of)
    own = needed(CLOUDS[of].kubernetes, "Kubernetes", of)
    return needed(own.managed, "Kubernetes with nodes of its own", of).members()


def joined(of: str) -> JoinedRenewal:
    """Return the module of a cloud whose Kubernetes is joined by configured nodes."""
    _expect_stamped(of)
    own = needed(CLOUDS[of].kubernetes, "Kubernetes", of)
    return needed(own.joined, "Kubernetes that nodes join", of).renewal()


def _expect_stamped(cloud: str) -> None:
    if cloud not in (known := stamped()):
        raise InputError(f"no cloud is called {cloud!r}", nearest(cloud, known))
