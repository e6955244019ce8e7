"""Certificates of a Kubernetes: valid for their names, and renewed before they end."""

from __future__ import annotations

import contextlib
import datetime
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from stampworks.machine_room.kubernetes import certificates
from stampworks.machine_room.kubernetes.certificates import Party

SERVER = Party("server", "server", hosts=("localhost", "127.0.0.1"))
CLIENT = Party("client", "somebody", "system:masters")


def read(folder: Path, name: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate((folder / f"{name}.crt").read_bytes())


def serials(folder: Path) -> dict[str, int]:
    return {file.stem: read(folder, file.stem).serial_number for file in folder.glob("*.crt")}


def test_they_are_made_once(tmp_path: Path) -> None:
    """The same authority signs all of them."""
    certificates.ensure(tmp_path, [SERVER, CLIENT])
    before = serials(tmp_path)
    certificates.ensure(tmp_path, [SERVER, CLIENT])
    assert serials(tmp_path) == before
    for name in ("server", "client"):
        read(tmp_path, name).verify_directly_issued_by(read(tmp_path, "ca"))
        assert (tmp_path / f"{name}.key").stat().st_mode & 0o777 == 0o600
    context = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
    context.load_cert_chain(tmp_path / "client.crt", tmp_path / "client.key")


def test_strict_clients_accept_them(tmp_path: Path) -> None:
    """Python 3.13 and later verify strictly, and so does its Kubernetes library."""
    certificates.ensure(tmp_path, [SERVER, CLIENT])
    asking = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
    asking.verify_flags |= ssl.VERIFY_X509_STRICT
    answering = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    answering.load_verify_locations(tmp_path / "ca.crt")
    answering.verify_flags |= ssl.VERIFY_X509_STRICT
    answering.verify_mode = ssl.CERT_REQUIRED
    asking.load_cert_chain(tmp_path / "client.crt", tmp_path / "client.key")
    answering.load_cert_chain(tmp_path / "server.crt", tmp_path / "server.key")
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = asking.wrap_bio(back, there, server_hostname="127.0.0.1")
    server = answering.wrap_bio(there, back, server_side=True)
    for side in (client, server, client, server):
        with contextlib.suppress(ssl.SSLWantReadError):
            side.do_handshake()
    said = server.getpeercert()
    assert said
    assert said["subject"] == ((("commonName", "somebody"),), (("organizationName", "system:masters"),))


def test_one_for_other_hosts_is_made_anew_and_no_other(tmp_path: Path) -> None:
    certificates.ensure(tmp_path, [SERVER, CLIENT])
    before = serials(tmp_path)
    certificates.ensure(tmp_path, [Party("server", "server", hosts=("localhost", "10.0.0.1")), CLIENT])
    assert {name for name, serial in serials(tmp_path).items() if before[name] != serial} == {"server"}


@pytest.mark.parametrize(
    ("days", "anew"), [(0, set()), (330, set()), (340, {"ca", "server", "client"}), (400, {"ca", "server", "client"})]
)
def test_they_are_made_anew_in_their_last_month(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, days: int, anew: set[str]
) -> None:
    """The authority ends when they do, so that all of them are."""
    certificates.ensure(tmp_path, [SERVER, CLIENT])
    before = serials(tmp_path)
    later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=days)
    monkeypatch.setattr(certificates, "_now", lambda: later)
    certificates.ensure(tmp_path, [SERVER, CLIENT])
    assert {name for name, serial in serials(tmp_path).items() if before[name] != serial} == anew
