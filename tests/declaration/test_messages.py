"""Messages about wrong declarations, to the letter."""

from __future__ import annotations

from pathlib import Path

import pytest
from stampworks.declaration import DeclarationError, load_file

from .conftest import EXAMPLE, Complaint, changed

MESSAGES = {
    "unknown-key": (
        changed("release:", "relaese:"),
        """\
cluster.yaml:4:1: relaese: there is no such key
    relaese: "2026.11"
    ^
  hint: did you mean 'release'?

1 problem in cluster.yaml: nothing was changed.""",
    ),
    "misspelled-required-key": (
        changed("machine: sim-h100", "machin: sim-h100"),
        """\
cluster.yaml:7:17: pools[0].machin: there is no such key
      - {name: gpu, machin: sim-h100, count: 4}
                    ^
  hint: did you mean 'machine'?

1 problem in cluster.yaml: nothing was changed.""",
    ),
    "key-of-another-section": (
        EXAMPLE + "rail_rate_mbps: 400\n",
        """\
cluster.yaml:29:1: rail_rate_mbps: there is no such key
    rail_rate_mbps: 400
    ^
  hint: 'rail_rate_mbps' belongs to fabric

1 problem in cluster.yaml: nothing was changed.""",
    ),
    "key-like-no-other": (
        changed("cidr:", "moon: 1, cidr:"),
        """\
cluster.yaml:5:11: network.moon: there is no such key
    network: {moon: 1, cidr: 10.77.0.0/16}
              ^
  hint: there are cidr, egress, card_addresses, existing, pods_cidr and services_cidr

1 problem in cluster.yaml: nothing was changed.""",
    ),
    "missing-key": (
        changed(", machine: sim-h100", ""),
        """\
cluster.yaml:7:5: pools[0].machine: is missing
      - {name: gpu, count: 4}
        ^
  hint: the catalog's name of the machine

1 problem in cluster.yaml: nothing was changed.""",
    ),
    "wrong-type": (
        changed("count: 4", "count: four"),
        """\
cluster.yaml:7:43: pools[0].count: must be a whole number, not 'four'
      - {name: gpu, machine: sim-h100, count: four}
                                              ^
  hint: largest number of nodes; for none, take the pool out

1 problem in cluster.yaml: nothing was changed.""",
    ),
    "number-in-quotes": (
        changed("count: 4", "count: '4'"),
        """\
cluster.yaml:7:43: pools[0].count: must be a whole number, not '4'
      - {name: gpu, machine: sim-h100, count: '4'}
                                              ^
  hint: write 4 without quotes

1 problem in cluster.yaml: nothing was changed.""",
    ),
    "text-that-is-a-number": (
        changed('"2026.11"', "2026.10"),
        """\
cluster.yaml:4:10: release: must be text, not 2026.10
    release: 2026.10
             ^
  hint: write it in quotes: "2026.10"

1 problem in cluster.yaml: nothing was changed.""",
    ),
    "yes-is-not-true": (
        changed("protect: true", "protect: yes"),
        """\
cluster.yaml:11:62: storage[0].protect: must be true or false, not 'yes'
      - {name: shared, kind: directory, mount: /shared, protect: yes}
                                                                 ^
  hint: write true

1 problem in cluster.yaml: nothing was changed.""",
    ),
    "no-value": (
        changed("topology: tree", "topology:"),
        """\
cluster.yaml:19:3: scheduler.topology: has no value
      topology:
      ^
  hint: description of the fabric by which the scheduler chooses nodes

1 problem in cluster.yaml: nothing was changed.""",
    ),
    "not-in-the-closed-set": (
        changed("topology: tree", "topology: treee"),
        """\
cluster.yaml:19:13: scheduler.topology: must be flat, tree or block, not 'treee'
      topology: treee
                ^
  hint: did you mean 'tree'?

1 problem in cluster.yaml: nothing was changed.""",
    ),
    "count-0": (
        changed("count: 4", "count: 0"),
        """\
cluster.yaml:7:43: pools[0].count: must be from 1 to 4096, not 0
      - {name: gpu, machine: sim-h100, count: 0}
                                              ^
  hint: largest number of nodes; for none, take the pool out

1 problem in cluster.yaml: nothing was changed.""",
    ),
    "two-pools-of-one-name": (
        changed("name: cpu", "name: gpu")
        .replace("pools: [gpu, cpu]", "pools: [gpu]")
        .replace("pools: [cpu]", "pools: [gpu]"),
        """\
cluster.yaml:8:12: pools[1].name: a second pool is called 'gpu'
      - {name: gpu, machine: sim-cpu, count: 1}
               ^
  hint: pools[0] has this name already; give each its own

1 problem in cluster.yaml: nothing was changed.""",
    ),
    "rail-rate-too-low": (
        changed("rail_rate_mbps: 200", "rail_rate_mbps: -1"),
        """\
cluster.yaml:9:43: fabric.rail_rate_mbps: must be from 0 to 1600000, not -1
    fabric: {kind: simulated, rail_rate_mbps: -1, leaf_nodes: 2, oversubscription: 1}
                                              ^
  hint: rate of one rail of one simulated node, in Mb/s (megabits a second); 0 is 200

1 problem in cluster.yaml: nothing was changed.""",
    ),
    "another-version": (
        changed("version: 1", "version: 2") + "key_of_that_version: 1\n",
        """\
cluster.yaml:1:10: version: this release of stampworks reads version 1, not 2
    version: 2
             ^
  hint: install a release of stampworks that reads it

1 problem in cluster.yaml: nothing was changed.""",
    ),
    "broken-yaml": (
        changed("count: 4}", "count: 4"),
        """\
cluster.yaml:7:5: the '{' is never closed
      - {name: gpu, machine: sim-h100, count: 4
        ^
  hint: close it with '}'

1 problem in cluster.yaml: nothing was changed.""",
    ),
    "host-bits-in-the-range": (
        changed("10.77.0.0/16", "10.77.3.1/16"),
        """\
cluster.yaml:5:17: network.cidr: '10.77.3.1/16' is an address inside a range
    network: {cidr: 10.77.3.1/16}
                    ^
  hint: write the range as 10.77.0.0/16

1 problem in cluster.yaml: nothing was changed.""",
    ),
    "an-illegal-name": (
        changed("name: local", "name: My_Cluster"),
        """\
cluster.yaml:2:7: name: 'My_Cluster' is not a legal name
    name: My_Cluster
          ^
  hint: a name is 1 to 20 small letters, digits and '-', from a letter to a letter or digit, for example 'my-cluster'

1 problem in cluster.yaml: nothing was changed.""",
    ),
    "accounts-without-accounting": (
        changed("accounting: true", "accounting: false"),
        """\
cluster.yaml:28:3: scheduler.accounts: accounts need accounting, which is off
      accounts: [{name: research, share: 1, accelerators_max: 0}]
      ^
  hint: write accounting: true in scheduler, or take the accounts out

1 problem in cluster.yaml: nothing was changed.""",
    ),
    "database-without-accounting": (
        changed("accounting: true", "accounting: false\n  database: managed"),
        """\
cluster.yaml:19:13: scheduler.database: a database is for the accounting, which is off
      database: managed
                ^
  hint: write accounting: true in scheduler, or take the database out

cluster.yaml:29:3: scheduler.accounts: accounts need accounting, which is off
      accounts: [{name: research, share: 1, accelerators_max: 0}]
      ^
  hint: write accounting: true in scheduler, or take the accounts out

2 problems in cluster.yaml: nothing was changed.""",
    ),
    "machine-and-count": (
        changed("machine: sim-h100, count: 4", "machine: sim-h10, count: 0"),
        """\
cluster.yaml:7:26: pools[0].machine: no machine is called 'sim-h10'
      - {name: gpu, machine: sim-h10, count: 0}
                             ^
  hint: did you mean 'sim-h100'?

cluster.yaml:7:42: pools[0].count: must be from 1 to 4096, not 0
      - {name: gpu, machine: sim-h10, count: 0}
                                             ^
  hint: largest number of nodes; for none, take the pool out

2 problems in cluster.yaml: nothing was changed.""",
    ),
    "structure-and-meaning-together": (
        changed("count: 4", "count: 0").replace("name: bob, uid: 2002", "name: bob, uid: 2001").replace("tree", "ring"),
        """\
cluster.yaml:7:43: pools[0].count: must be from 1 to 4096, not 0
      - {name: gpu, machine: sim-h100, count: 0}
                                              ^
  hint: largest number of nodes; for none, take the pool out

cluster.yaml:15:22: users[1].uid: a second user has the uid 2001
      - {name: bob, uid: 2001}
                         ^
  hint: users[0] has it already; their files would be shared

cluster.yaml:19:13: scheduler.topology: must be flat, tree or block, not 'ring'
      topology: ring
                ^
  hint: description of the fabric by which the scheduler chooses nodes

3 problems in cluster.yaml: nothing was changed.""",
    ),
}


@pytest.mark.parametrize(("text", "expected"), MESSAGES.values(), ids=MESSAGES)
def test_message(text: str, expected: str, complaint: Complaint) -> None:
    """A wrong declaration is answered with exactly this text."""
    assert complaint(text) == expected


def test_stack_file(folder: Path) -> None:
    """A problem has a line of the stack file, and its path begins at the declaration."""
    stack = folder / "stacks" / "Pulumi.local.yaml"
    stack.parent.mkdir()
    indented = "".join(f"    {line}\n" for line in changed("count: 4", "count: 0").splitlines())
    stack.write_text(f"config:\n  stampworks:cluster:\n{indented}")
    with pytest.raises(DeclarationError) as caught:
        load_file(stack).refuse_problems()
    assert str(caught.value) == (
        "stacks/Pulumi.local.yaml:9:47: pools[0].count: must be from 1 to 4096, not 0\n"
        "          - {name: gpu, machine: sim-h100, count: 0}\n"
        "                                                  ^\n"
        "  hint: largest number of nodes; for none, take the pool out\n"
        "\n"
        "1 problem in stacks/Pulumi.local.yaml: nothing was changed."
    )
