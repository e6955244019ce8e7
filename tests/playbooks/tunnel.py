"""A stand-in for the AWS CLI with its Session Manager plugin, for the call that ssh makes:

    aws ssm start-session --region R --target i-1 --document-name AWS-StartSSHSession --parameters portNumber=22

. The JSON file in the variable TUNNELS has the address and route of each machine.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path


def put_into(folder: Path, reach: Sequence[str], addresses: Mapping[str, str]) -> dict[str, str]:
    """Write the programs that lead to machines with these addresses, by their ids, for an environment with a PATH."""
    told, program = folder / "tunnels.json", folder / "tunnel" / "aws"
    told.write_text(json.dumps({"reach": list(reach), "addresses": dict(addresses)}))
    program.parent.mkdir(exist_ok=True)
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -IS {__file__} "$@"\n')
    program.chmod(0o755)
    return {"TUNNELS": str(told), "PATH": f"{program.parent}:{os.environ['PATH']}"}


def main(words: list[str]) -> None:
    if words[:1] == ["--through"]:
        relay(words[1], int(words[2]))
        return
    options = dict(zip(words[2::2], words[3::2], strict=True))
    assert words[:2] == ["ssm", "start-session"]
    assert options["--document-name"] == "AWS-StartSSHSession"
    told = json.loads(Path(os.environ["TUNNELS"]).read_text())
    address, port = told["addresses"][options["--target"]], options["--parameters"].removeprefix("portNumber=")
    command = [*told["reach"], sys.executable, "-IS", __file__, "--through", address, port]
    os.execvp(command[0], command)  # noqa: S606  (ssh is the shell's child already)


def relay(address: str, port: int) -> None:
    """Copy standard input and output, until both sides have ended."""
    with socket.create_connection((address, port), timeout=10) as there:
        there.settimeout(None)
        threading.Thread(target=forward, args=(there,), daemon=True).start()
        pump(there.fileno(), 1)


def forward(there: socket.socket) -> None:
    """Close the connection when ssh has ended: a server waits two minutes for a silent client."""
    pump(0, there.fileno())
    there.shutdown(socket.SHUT_WR)


def pump(source: int, sink: int) -> None:
    while data := os.read(source, 1 << 16):
        while data:
            data = data[os.write(sink, data) :]


if __name__ == "__main__":
    main(sys.argv[1:])
