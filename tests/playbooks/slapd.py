"""A real directory near the nodes: Debian's slapd, in the network of a room, on the same machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

PACKAGES = ("slapd", "libltdl7", "libwrap0", "libodbc2")
"""slapd, and the libraries that machines lack. Nothing is installed: they are unpacked into a folder."""
BASE = "dc=example,dc=org"
READER, PASSWORD = f"cn=reader,{BASE}", "a password of the tests"
CONFIGURATION = """\
include {schema}/core.schema
include {schema}/cosine.schema
include {schema}/nis.schema
attributetype ( 1.3.6.1.4.1.24552.500.1.1.1.13 NAME 'sshPublicKey' EQUALITY octetStringMatch
  SYNTAX 1.3.6.1.4.1.1466.115.121.1.40 )
objectclass ( 1.3.6.1.4.1.24552.500.1.1.2.0 NAME 'ldapPublicKey' SUP top AUXILIARY MAY ( sshPublicKey $ uid ) )
modulepath {modules}
moduleload back_mdb
TLSCertificateFile {folder}/server.pem
TLSCertificateKeyFile {folder}/server.key
database mdb
suffix "{base}"
directory {folder}/data
maxsize 16777216
access to attrs=userPassword by anonymous auth by * none
access to * by dn.exact="{reader}" read by * none
"""
ENTRIES = """\
dn: {base}
objectClass: domain
dc: example

dn: {reader}
objectClass: organizationalRole
objectClass: simpleSecurityObject
cn: reader
userPassword: {password}
"""


@dataclass(frozen=True)
class Person:
    name: str
    uid: int
    keys: Sequence[str] = ()

    @property
    def entry(self) -> str:
        lines = [f"dn: uid={self.name},{BASE}", "objectClass: account", "objectClass: posixAccount"]
        lines += ["objectClass: ldapPublicKey", f"uid: {self.name}", f"cn: {self.name}", f"uidNumber: {self.uid}"]
        lines += [f"gidNumber: {self.uid}", f"homeDirectory: /home/{self.name}", "loginShell: /bin/bash"]
        return "\n".join([*lines, *(f"sshPublicKey: {key}" for key in self.keys), ""])


def group(name: str, gid: int, members: Sequence[str]) -> str:
    head = [f"dn: cn={name},{BASE}", "objectClass: posixGroup", f"cn: {name}", f"gidNumber: {gid}"]
    return "\n".join([*head, *(f"memberUid: {each}" for each in members), ""])


@dataclass
class Directory:
    """A server that is restarted with each set of entries."""

    folder: Path
    address: str
    reach: Sequence[str]
    """The command that steps into the network of the nodes."""
    port: int = 6389
    tls_port: int = 6636
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def certificate(self) -> Mapping[str, bytes]:
        return {name: (self.folder / name).read_bytes() for name in ("server.pem", "server.key")}

    @certificate.setter
    def certificate(self, files: Mapping[str, bytes]) -> None:
        for name, content in files.items():
            (self.folder / name).write_bytes(content)

    def prepare(self) -> None:
        """Bring the program. The folder has its certificate (`certify`) already."""
        root, packages = self.folder / "root", self.folder / "packages"
        packages.mkdir()
        subprocess.run(["apt-get", "download", "-q", *PACKAGES], cwd=packages, check=True, timeout=120)
        for package in packages.iterdir():
            subprocess.run(["dpkg-deb", "-x", package, root], check=True, timeout=60)
        [modules] = root.glob("usr/lib/ldap")
        text = CONFIGURATION.format(
            schema=root / "etc/ldap/schema", modules=modules, folder=self.folder, base=BASE, reader=READER
        )
        (self.folder / "slapd.conf").write_text(text)

    def serve(self, people: Sequence[Person], groups: Sequence[str]) -> None:
        """Serve exactly these entries."""
        self.end()
        shutil.rmtree(self.folder / "data", ignore_errors=True)
        (self.folder / "data").mkdir()
        own = [group(each.name, each.uid, ()) for each in people]
        text = ENTRIES.format(base=BASE, reader=READER, password=PASSWORD)
        (self.folder / "entries.ldif").write_text("\n".join([text, *(each.entry for each in people), *own, *groups]))
        configuration = ["-f", str(self.folder / "slapd.conf")]
        self._run(["-T", "add", *configuration, "-l", str(self.folder / "entries.ldif")])
        urls = f"ldap://{self.address}:{self.port} ldaps://{self.address}:{self.tls_port}"
        argv = [*self.reach, str(self._program), "-d", "0", *configuration, "-h", urls]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(argv, env=self._environment, stdout=log, stderr=log)
        self._await()

    def end(self) -> None:
        if self._process:
            self._process.terminate()
            self._process.wait(30)
            self._process = None

    @property
    def _program(self) -> Path:
        return self.folder / "root/usr/sbin/slapd"

    @property
    def _environment(self) -> Mapping[str, str]:
        libraries = {str(path.parent) for path in (self.folder / "root").rglob("lib*.so*")}
        return {**os.environ, "LD_LIBRARY_PATH": ":".join(sorted(libraries))}

    def _run(self, arguments: Sequence[str]) -> None:
        done = subprocess.run(
            [self._program, *arguments], env=self._environment, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr

    def _await(self) -> None:
        connect = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])))"
        ask = [*self.reach, "python3", "-c", connect]
        end = time.monotonic() + 20
        while subprocess.run([*ask, self.address, str(self.port)], capture_output=True, timeout=30).returncode:
            assert self._process
            assert self._process.poll() is None, (self.folder / "log").read_text()
            assert time.monotonic() < end, "slapd does not answer"
            time.sleep(0.1)


def certify(folder: Path, address: str) -> None:
    """An authority of the tests, and a certificate for the server's address."""
    (folder / "server.ext").write_text(f"subjectAltName=IP:{address}\n")
    own = ["-newkey", "rsa:2048", "-nodes", "-subj"]
    for argv in (
        ["req", "-x509", "-days", "2", *own, "/CN=tests", "-keyout", "ca.key", "-out", "ca.pem"],
        ["req", *own, "/CN=directory", "-keyout", "server.key", "-out", "server.csr"],
        [
            *("x509", "-req", "-days", "2", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key"),
            *("-CAcreateserial", "-extfile", "server.ext", "-out", "server.pem"),
        ],
    ):
        subprocess.run(["openssl", *argv], cwd=folder, check=True, capture_output=True, timeout=60)
