"""Catalogue of all faults of the local cloud. Faults that stop a node come first: others on it are cleared after it
runs."""

from __future__ import annotations

from stampworks.clouds.faults import Fault, Severity
from stampworks.clouds.local.faults import accelerators, links, machines, programs, settings, storage
from stampworks.clouds.local.faults.site import Means

_RATE = Severity("the part of its rate that is left", 0.1, 0.7)

_ALL: tuple[tuple[Fault, Means], ...] = (
    (Fault("power-loss", "a node is off; its disk stays", "status"), machines.NO_POWER),
    (Fault("node-frozen", "all processes of a node are frozen", "status"), machines.FROZEN),
    (
        Fault(
            "cpu-slow",
            "a node's processes run for a part of the time",
            "matmul",
            severity=Severity("the part of the time that is left", 0.2, 0.75),
        ),
        machines.SLOW_CPU,
    ),
    (
        Fault("rail-slow", "the switch sends to a node at a part of its rail's rate", "rails", "rail", _RATE),
        links.SLOW_RAIL,
    ),
    (Fault("rail-down", "a node's rail has no carrier", "health", "rail"), links.RAIL_DOWN),
    (Fault("trunk-slow", "a leaf's trunk carries a part of its rate", "trunks", "trunk", _RATE), links.SLOW_TRUNK),
    (
        Fault(
            "mtu-mismatch",
            "a node's rail has a smaller MTU than its peers'",
            "limits",
            "rail",
            Severity("bytes of its largest packet", 600, 1400, whole=True),
        ),
        links.OTHER_MTU,
    ),
    (
        Fault(
            "packet-loss",
            "the switch loses packets that come from a node's rail",
            "rails",
            "rail",
            Severity("per cent of the packets", 3, 25),
        ),
        links.PACKET_LOSS,
    ),
    (
        Fault("rail-bypassed", "a node sends to the rails of all others over the management network", "fabric"),
        links.BYPASSED,
    ),
    (Fault("slurmd-dead", "slurmd does not run on a node", "status", slurm=True), settings.DEAD_SLURMD),
    (
        Fault("slurm-key-wrong", "a node has another key of Slurm than the rest", "status", slurm=True),
        settings.WRONG_KEY,
    ),
    (
        Fault("slurm-conf-differs", "a node's slurm.conf has a line more", "inventory", slurm=True),
        settings.OTHER_SLURM_CONF,
    ),
    (
        Fault(
            "clock-ahead",
            "the clock of a node's slurmd and of its jobs is ahead",
            "clocks",
            severity=Severity("seconds", 2, 30),
            slurm=True,
        ),
        settings.CLOCK_AHEAD,
    ),
    (
        Fault(
            "disk-full",
            "no space is left in a node's /tmp",
            "storage",
            severity=Severity("MiB that are left", 0, 2),
        ),
        storage.FULL_DISK,
    ),
    (
        Fault("shared-missing", "a shared directory is not mounted on a node", "health", "shared directory"),
        storage.NOT_SHARED,
    ),
    (
        Fault(
            "shared-slow",
            "a shared directory is slow on a node",
            "storage",
            "shared directory",
            Severity("MB/s", 1, 4),
        ),
        storage.SLOW_SHARED,
    ),
    (
        Fault(
            "torn-checkpoint",
            "large files that a node writes to a shared directory lose their end",
            "checkpoint",
            "shared directory",
            Severity("bytes that are lost", 1, 65536, whole=True),
        ),
        storage.TORN,
    ),
    (
        Fault(
            "memlock-small",
            "jobs of a node may lock little memory",
            "limits",
            severity=Severity("KiB", 64, 1024, whole=True),
            slurm=True,
        ),
        settings.SMALL_MEMLOCK,
    ),
    (
        Fault("shm-small", "a node has little shared memory", "limits", severity=Severity("MiB", 1, 64, whole=True)),
        storage.SMALL_SHARED_MEMORY,
    ),
    (
        Fault("interface-wrong", "collectives of a node go over the management network", "inventory"),
        settings.WRONG_INTERFACE,
    ),
    (Fault("library-skew", "a library of a node has another version", "inventory"), settings.OTHER_LIBRARY),
    (Fault("bit-flip", "a bit of a node's products is sometimes wrong", "matmul"), settings.BIT_FLIP),
    (
        Fault(
            "gpus-missing",
            "accelerators of a node are not there",
            "health",
            "accelerators",
            Severity("accelerators", 1, 2, whole=True),
            simulated=True,
        ),
        accelerators.MISSING,
    ),
    (
        Fault(
            "ecc-errors",
            "an accelerator counts uncorrected memory errors",
            "health",
            "accelerators",
            Severity("errors", 1, 500, whole=True),
            simulated=True,
        ),
        accelerators.ECC_ERRORS,
    ),
    (
        Fault(
            "xid",
            "a node's kernel reports that an accelerator fell off the bus",
            "inventory",
            "accelerators",
            simulated=True,
        ),
        accelerators.XID,
    ),
    (
        Fault("throttling", "an accelerator is slowed down for its heat", "inventory", "accelerators", simulated=True),
        accelerators.THROTTLED,
    ),
    (
        Fault("rank-killed", "a rank of a training run is killed on the node", "training", once=True),
        programs.KILLED_RANK,
    ),
)

CATALOGUE = {fault.name: (fault, means) for fault, means in _ALL}
