"""Certificates of a Kubernetes of the local cloud: one authority, and a certificate for each of its parties."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from stampworks.machine_room import files

LASTS, RENEWED = datetime.timedelta(days=365), datetime.timedelta(days=30)
"""Validity of certificates, and the time before its end at which they are renewed."""
_SIGNS = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


@dataclass(frozen=True)
class Party:
    """A holder of a certificate."""

    name: str
    """Base name of its files: <name>.crt and <name>.key."""
    common_name: str
    organization: str = ""
    hosts: tuple[str, ...] = ()
    """Names and addresses that it serves; empty for a client."""


def ensure(folder: Path, parties: Iterable[Party]) -> None:
    """Make certificates that are missing or end soon. A new authority replaces all of them."""
    files.make_directory(folder, 0o700)
    authority = _good(folder / "ca.crt")
    if authority is None:
        for old in folder.glob("*.crt"):
            old.unlink()
        _make_authority(folder)
    if not (folder / "accounts.key").exists():
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        files.write(folder / "accounts.key", _text(key), 0o600)
    for party in parties:
        if not _fits(folder, party):
            _vouch(folder, party)


def outdated(folder: Path, parties: Iterable[Party]) -> bool:
    """Whether `ensure` would renew a certificate."""
    return _good(folder / "ca.crt") is None or not all(_fits(folder, party) for party in parties)


def _fits(folder: Path, party: Party) -> bool:
    found = _good(folder / f"{party.name}.crt")
    return found is not None and _hosts(found) == set(party.hosts)


def _good(file: Path) -> x509.Certificate | None:
    try:
        found = x509.load_pem_x509_certificate(file.read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    return found if found.not_valid_after_utc - _now() > RENEWED and _says_whose(found) else None


def _says_whose(certificate: x509.Certificate) -> bool:
    """Whether a certificate names the key of its signer.

    Clients that follow RFC 5280 strictly, as Python does since 3.13, accept no other.
    """
    return any(isinstance(each.value, x509.AuthorityKeyIdentifier) for each in certificate.extensions)


def _make_authority(folder: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("stampworks", "")
    made = (
        _builder(name, name, key.public_key(), key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_SIGNS, critical=True)
        .sign(key, hashes.SHA256())
    )
    files.write(folder / "ca.key", _text(key), 0o600)
    files.write(folder / "ca.crt", made.public_bytes(serialization.Encoding.PEM).decode())


def _vouch(folder: Path, party: Party) -> None:
    authority = x509.load_pem_x509_certificate((folder / "ca.crt").read_bytes())
    signer = serialization.load_pem_private_key((folder / "ca.key").read_bytes(), None)
    if not isinstance(signer, ec.EllipticCurvePrivateKey):
        raise TypeError("the authority's key is none of ours")
    key = ec.generate_private_key(ec.SECP256R1())
    usage = [ExtendedKeyUsageOID.CLIENT_AUTH, *([ExtendedKeyUsageOID.SERVER_AUTH] if party.hosts else [])]
    subject = _name(party.common_name, party.organization)
    builder = _builder(subject, authority.subject, key.public_key(), signer.public_key())
    builder = builder.add_extension(x509.ExtendedKeyUsage(usage), critical=False)
    if party.hosts:
        builder = builder.add_extension(x509.SubjectAlternativeName(map(_host, party.hosts)), critical=False)
    made = builder.sign(signer, hashes.SHA256())
    files.write(folder / f"{party.name}.key", _text(key), 0o600)
    files.write(folder / f"{party.name}.crt", made.public_bytes(serialization.Encoding.PEM).decode())


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, signer: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = _now()
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))  # clocks of nodes may be a little behind
        .not_valid_after(now + LASTS)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer), critical=False)
    )


def _name(common_name: str, organization: str) -> x509.Name:
    parts = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
    return x509.Name(parts + ([x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization)] if organization else []))


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _hosts(certificate: x509.Certificate) -> set[str]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return set()
    return {*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))}


def _text(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    ).decode()


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)
