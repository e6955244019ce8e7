"""Measure the rate of a veth pair between two network namespaces, and print bits per second. facts.py runs this program
in a separate network namespace.

It starts itself again in a second one.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time

SECONDS = 0.8
WINDOW_S = 0.1
"""Seconds of a window. The best window shows the link; in others another process used the CPU."""
SENDER, RECEIVER, PORT = "192.0.2.1", "192.0.2.2", 5001
CHUNK = bytes(1 << 17)


def send() -> None:
    """Run the receiver in another namespace, send to it, and print its result."""
    with subprocess.Popen(
        ["unshare", "--net", sys.executable, "-I", "-S", __file__, "receive"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    ) as receiver:
        if receiver.stdin is None or receiver.stdout is None:
            raise TypeError("this process was started without pipes")
        receiver.stdout.readline()  # the receiver is in its namespace
        ip(f"link add left type veth peer name right netns {receiver.pid}", *up("left", SENDER))
        print("plugged in", file=receiver.stdin)
        receiver.stdout.readline()  # the receiver listens
        with socket.create_connection((RECEIVER, PORT), timeout=5) as connection:
            end = time.monotonic() + SECONDS
            while time.monotonic() < end:
                connection.sendall(CHUNK)
        print(receiver.stdout.readline().strip())


def receive() -> None:
    """Receive bytes in this namespace and print their rate."""
    print("in my namespace", flush=True)
    sys.stdin.readline()
    ip(*up("right", RECEIVER))
    with socket.create_server((RECEIVER, PORT)) as server:
        print("listening", flush=True)
        server.settimeout(5)
        connection, _ = server.accept()
        with connection:
            best, received, begun = 0.0, 0, time.monotonic()
            while size := len(connection.recv(1 << 20)):
                received += size
                if (took := time.monotonic() - begun) >= WINDOW_S:
                    best = max(best, received * 8 / took)
                    received, begun = 0, time.monotonic()
            print(round(best), flush=True)


def up(name: str, address: str) -> tuple[str, str]:
    """Return the commands that give an end of the pair its address."""
    return f"addr add {address}/30 dev {name}", f"link set {name} up"


def ip(*commands: str) -> None:
    """Run commands of `ip` in this namespace."""
    subprocess.run(["ip", "-batch", "-"], input="\n".join(commands) + "\n", text=True, check=True, timeout=10)


if __name__ == "__main__":
    receive() if sys.argv[1:] else send()
