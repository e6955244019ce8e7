"""Faults of any kind, place and severity are found in a cluster with noise, and noise is not."""

from __future__ import annotations

from random import Random

from tests.qualification.faulty import KINDS, broken, named, sound


def test_faults_are_found_and_their_culprits_named() -> None:
    """Nearly all faults are found; some are too small, and the benchmark counts them."""
    chance = Random(2)  # noqa: S311
    found = [(faults, cluster.prove()) for cluster, faults in (broken(chance, 1) for _ in range(150))]
    assert {fault.kind for faults, _ in found for fault in faults} == {*KINDS}
    assert sum(named(faults, findings) for faults, findings in found) >= 145


def test_a_sound_cluster_raises_no_alarm() -> None:
    """Disks differ, and neighbours take their share at times: no node is blamed."""
    chance = Random(2)  # noqa: S311
    assert [each for _ in range(30) for each in sound(chance).prove() if each.verdict != "pass"] == []


def test_innocent_nodes_are_not_named() -> None:
    """A campaign that finds the fault and blames another as well counts as wrong."""
    chance = Random(2)  # noqa: S311
    cluster, faults = broken(chance, 1)
    findings = cluster.prove()
    assert named(faults, findings)
    other, [theirs] = broken(chance, 1)
    assert theirs.node != faults[0].node
    assert not named(faults, [*findings, *other.prove()])
    assert not named([], findings)
