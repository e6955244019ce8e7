"""Nodes that lie, with the real player and the real Ansible, and a stand-in for ssh that answers for the nodes.

The tests cover the use of a node's answer, and the shown text.
"""

from __future__ import annotations

import asyncio
import json
import resource
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from stampworks.configuration import PlaybookFailed, Recap, play, playbooks_dir

# ssh as Ansible calls it: options, the address, the command. A node's answer is a file named by its address.
SSH = """#!/bin/sh
for word; do case "$word" in 192.0.2.*) node=$word;; esac; done
echo "$node" >> "{here}/asked"
. "{here}/$node"
"""
PLAYBOOK = """
- name: Look
  hosts: all
  gather_facts: false
  tasks:
    - {name: Look at the node, stampworks.node.files: {name: none, files: []}}
    - {name: Look again, stampworks.node.files: {name: none, files: []}}
- name: Write
  hosts: all
  gather_facts: false
  tasks:
    - name: Write a key
      stampworks.node.files: {name: key, files: [{path: /nowhere/key, content: "{{ key }}", secret: true}]}
"""
SECRET = "c2VjcmV0" * 200
Lie = Callable[[Mapping[str, str]], Recap]


@pytest.fixture
def lie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lie:
    """Run a playbook on nodes that each answer by their own script, and on `honest`, which answers correctly."""
    ssh = tmp_path / "bin" / "ssh"
    ssh.parent.mkdir()
    ssh.write_text(SSH.format(here=tmp_path))
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{ssh.parent}:/usr/bin:/bin")
    (tmp_path / "collections").symlink_to(playbooks_dir() / "collections")
    (tmp_path / "play.yml").write_text(PLAYBOOK)

    def run(answers: Mapping[str, str]) -> Recap:
        scripts = {**answers, "honest": answering(changed=False)}
        hosts = {
            name: {"ansible_host": f"192.0.2.{number}", "node_host_key": "ssh-ed25519 AAAA"}
            for number, name in enumerate(scripts, 1)
        }
        for name, script in scripts.items():
            (tmp_path / hosts[name]["ansible_host"]).write_text(script)
        inventory: dict[str, Any] = {"all": {"vars": {"ansible_python_interpreter": sys.executable}, "hosts": hosts}}
        secrets = {"key": SECRET}
        return asyncio.run(play(str(tmp_path / "play.yml"), inventory, (), secrets, lambda _: None, timeout_minutes=2))

    return run


def answering(**answer: Any) -> str:
    return f"cat <<'END'\n{json.dumps(answer)}\nEND\n"


NO_RESULTS = {
    "words": ("echo owned", "files broke on the node: owned"),
    "list": ("echo '[1, 2]'", "files broke on the node: [1, 2]"),
    "empty": ("echo '{}'", "files broke on the node: {}"),
    "deep": (f"{sys.executable} -c 'print(\"[\" * 100000)'", "files broke on the node: ... [[["),
    "number": (f"{sys.executable} -c 'print(\"9\" * 100000)'", "files broke on the node: ... 999"),
    "escapes": (r"printf '\033[2J\033]0;owned\007'", r"files broke on the node: \x1b[2J\x1b]0;owned\x07"),
    "bytes": (r"printf '\377\376'", "files broke on the node: "),
    "silence": ("exit 3", "files broke on the node: exit code 3 without a word"),
    "no-text": (answering(changed=False, failed=True, msg={"\x1b[31m": ["red"]}), r"{'\x1b[31m': ['red']}"),
    "no-truth": (answering(changed=False, failed="no"), "it gave no reason"),
    "long": (answering(changed=False, failed=True, msg="x" * 100_000), "x" * 100),
    "endless": ("yes endless", "files broke on the node: ... "),
    "endless-errors": ("yes endless >&2", "files broke on the node: ... "),
    "results": (answering(changed=False, results=[3], warnings=3, diff=3, invocation=3, rc=1, exception=3), ""),
}


def test_an_answer_that_is_none_is_quoted(lie: Lie) -> None:
    """Each lying node is named with its task, the others continue, and no text controls the terminal."""
    with pytest.raises(PlaybookFailed) as caught:
        lie({name: answer for name, (answer, _) in NO_RESULTS.items()})
    text = str(caught.value)
    found = {failure.host: failure for failure in caught.value.recap.failures}
    assert found.keys() == {name for name, (_, expected) in NO_RESULTS.items() if expected}
    for name, failure in found.items():
        assert failure.task == "Look : Look at the node"
        assert len(failure.message) < 4500
        assert NO_RESULTS[name][1] in failure.message.replace("\x1b", r"\x1b").replace("\x07", r"\x07"), name
    assert all(line.isprintable() for line in text.split("\n"))
    # a child counts as large as this process until it has become another program
    own_kib, largest_kib = (resource.getrusage(of).ru_maxrss for of in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    assert largest_kib < 1_000_000 + own_kib, "no process had to hold all that the endless ones said"


def test_a_node_commands_nothing_here(lie: Lie, tmp_path: Path) -> None:
    """An answer adds no host, changes none, sets no variable and is no template: later tasks are unaffected."""
    proof = tmp_path / "owned"
    script = tmp_path / "python"
    script.write_text(f"#!/bin/sh\ntouch {proof}\necho '{{}}'\n")
    script.chmod(0o755)
    here = {"ansible_connection": "local", "ansible_python_interpreter": str(script), "ansible_host": "192.0.2.99"}
    trick = f"{{{{ lookup('ansible.builtin.pipe', 'touch {proof}') }}}}"
    recap = lie(
        {
            "adds": answering(changed=True, add_host={"host_name": "new", "host_vars": here, "groups": ["all"]}),
            "changes": answering(changed=True, add_host={"host_name": "honest", "host_vars": here}),
            "moves": answering(changed=True, ansible_facts={**here, "key": "x"}, _ansible_delegated_vars=here),
            "templates": answering(changed=True, msg=trick, warnings=[trick], ansible_facts={"files": trick}),
        }
    )
    assert recap == Recap(5, 12, ())
    assert not proof.exists()
    asked = (tmp_path / "asked").read_text().split()
    assert sorted(set(asked)) == [f"192.0.2.{number}" for number in range(1, 6)]
    assert len(asked) == 15


def test_a_node_that_repeats_a_secret_does_not_spread_it(lie: Lie) -> None:
    """A node is given keys; an answer that holds them is shown without."""
    count = 'echo x >> "$0.$node"; [ $(wc -l < "$0.$node") -lt 3 ] && echo \'{"changed": false}\' && exit; cat; echo'
    with pytest.raises(PlaybookFailed, match=r"liar: Write : Write a key\n") as caught:
        lie({"liar": count + " no more"})
    assert "[secret]" in str(caught.value)
    assert SECRET[:32] not in str(caught.value)
    # The secret is at any position, so that cutting the text may split it. The answer is a result.
    text = "".join("x" * 991 + SECRET for _ in range(4))
    with pytest.raises(PlaybookFailed, match=r"liar: Look : Look at the node\n") as caught:
        lie({"liar": answering(changed=False, failed=True, msg=text)})
    assert "[secret]" in str(caught.value)
    assert SECRET[:8] not in str(caught.value)


def test_ssh_is_bounded_and_keeps_its_exit_code(tmp_path: Path) -> None:
    """The program between Ansible and ssh changes nothing but the size, on both streams."""
    ssh = tmp_path / "ssh"
    ssh.write_text('#!/bin/sh\nread line; echo "$line $*"; echo error >&2; exit 255\n')
    ssh.chmod(0o755)
    bounded = Path(sys.modules[play.__module__].__file__ or "").with_name("bounded-ssh")
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run([bounded, "a b", "c"], input=b"in\n", capture_output=True, env=environment, timeout=20)
    assert (done.returncode, done.stdout, done.stderr) == (255, b"in a b c\n", b"error\n")
    ssh.write_text("#!/bin/sh\nyes & yes >&2\n")
    done = subprocess.run([bounded], capture_output=True, env=environment, timeout=20)
    assert (len(done.stdout), len(done.stderr)) == (1 << 20, 1 << 20)
