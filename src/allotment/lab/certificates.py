"""Certificates of a lab: its authority, the server's and the administrator's, and the administrator's token.

They are stored in the data folder, readable by the owner only, and renewed before they expire. Certificates signed by
the authority are also renewed when the server gets a name that they do not cover, or when a file is missing or damaged,
since nothing is lost. A damaged authority is an error, because clients that trust it would not trust another. A new
authority replaces all others. Keys use elliptic curves, which take a millisecond to create and as little in a
handshake.
"""

from __future__ import annotations

import ipaddress
import re
import secrets
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from allotment.files import atomic_write, private
from allotment.lab.secret_files import DamagedFile, read_or_create

ADMIN = "allotment-admin"
#: The group that is allowed everything, regardless of roles.
MASTERS = "system:masters"
#: The name of the API server for aggregated API servers, which trust it to name users.
FRONT_PROXY = "front-proxy-client"

_LOCAL = ("localhost", "127.0.0.1", "::1")
_AUTHORITY_LIFE = timedelta(days=3650)
_LIFE = timedelta(days=365)
_RENEW_BEFORE = timedelta(days=30)
#: Tolerance for clients whose clocks are slightly behind.
_SLACK = timedelta(hours=1)

_TOKEN: Final = re.compile(rb"\s*[!-~]{32,}\s*")


class Identity(NamedTuple):
    """The PEM files of a certificate and its key."""

    certificate: Path
    key: Path


class Certificates(NamedTuple):
    """The credentials of a lab's server and administrator; ``token`` also authenticates the administrator."""

    authority: Path
    server: Identity
    admin: Identity
    token: str


class SignerKeys(NamedTuple):
    """A certificate and its private key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def ensure(folder: Path, now: datetime, names: Iterable[str] = ()) -> Certificates:
    """Return the certificates in a folder, created or renewed as needed; ``names``: additional server names."""
    authority, server = serving(folder, now, names)
    admin = issue(folder, ADMIN, (MASTERS,), now)
    return Certificates(authority, server, admin, _token(folder / "token"))


def serving(folder: Path, now: datetime, names: Iterable[str] = ()) -> tuple[Path, Identity]:
    """Return a folder's authority and a server certificate for this machine's names, created or renewed as needed."""
    signer = signer_keys(folder, now)
    server = _files(folder, "server")
    hosts = tuple(dict.fromkeys((*_LOCAL, *names)))
    if not _serves(server, signer, hosts, now):
        _write(server, _signed(signer, "allotment", (), now, hosts))
    return _files(folder, "ca").certificate, server


def signer_keys(folder: Path, now: datetime) -> SignerKeys:
    """Return the authority of a folder, created or renewed as needed."""
    private.make_folder(folder)
    files = _files(folder, "ca")
    signer = _read_authority(files, now)
    if signer is None:
        signer = _authority(now)
        # An interrupted write leaves only a key, which the next start replaces; never a mismatched pair.
        files.certificate.unlink(missing_ok=True)
        atomic_write.sync_folder(folder)
        _write(files, signer)
    return signer


def check(folder: Path, now: datetime) -> None:
    """Raise DamagedFile if the authority or the token of a folder is damaged; change nothing."""
    _read_authority(_files(folder, "ca"), now)
    if (folder / "token").exists():
        _token(folder / "token")


def front_proxy(folder: Path, now: datetime) -> tuple[Path, Identity]:
    """Return the authority and the certificate with which the API server calls aggregated API servers."""
    own = folder / "front-proxy"
    signer_keys(own, now)
    return _files(own, "ca").certificate, issue(own, FRONT_PROXY, (), now)


def issue(folder: Path, name: str, groups: Sequence[str], now: datetime) -> Identity:
    """Return a client certificate from the folder's authority, created or renewed as needed."""
    signer = _read_authority(_files(folder, "ca"), now)
    if signer is None:
        raise FileNotFoundError(f"no usable certificate authority in {folder}")
    files = _files(folder, f"client-{name}")
    found = _read(files, now)
    if (
        found is None
        or not _signed_by(found.certificate, signer)
        or found.certificate.subject != _subject(name, groups)
    ):
        _write(files, _signed(signer, name, groups, now))
    return files


def _files(folder: Path, stem: str) -> Identity:
    return Identity(folder / f"{stem}.crt", folder / f"{stem}.key")


def _read_authority(files: Identity, now: datetime) -> SignerKeys | None:
    """Read the authority; None if missing or about to expire. Raises DamagedFile, OSError.

    A key without a certificate is left by an interrupted start: nothing has been signed with it.
    """
    advice = (
        f"restore {files.certificate.name} and {files.key.name} from a backup, or remove both to create a new authority"
    )

    def damaged(path: Path, expected: str, content: bytes) -> DamagedFile:
        return DamagedFile(path, expected, "different content" if content else "an empty file", advice)

    try:
        content = files.certificate.read_bytes()
    except FileNotFoundError:
        return None
    try:
        certificate = x509.load_pem_x509_certificate(content)
    except ValueError:
        raise damaged(files.certificate, "a PEM certificate", content) from None
    expected = f"the private key of {files.certificate.name} in PEM format"
    try:
        content = files.key.read_bytes()
        key = serialization.load_pem_private_key(content, None)
    except FileNotFoundError:
        raise DamagedFile(files.key, expected, "no file", advice) from None
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise damaged(files.key, expected, content) from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
        raise DamagedFile(files.key, expected, "a different key", advice)
    return SignerKeys(certificate, key) if _is_current(certificate, now) else None


def _read(files: Identity, now: datetime) -> SignerKeys | None:
    """Read a certificate and its key; None if incomplete or about to expire."""
    with suppress(OSError, ValueError, TypeError, UnsupportedAlgorithm):
        certificate = x509.load_pem_x509_certificate(files.certificate.read_bytes())
        key = serialization.load_pem_private_key(files.key.read_bytes(), None)
        if isinstance(key, ec.EllipticCurvePrivateKey) and key.public_key() == certificate.public_key():
            if _is_current(certificate, now):
                return SignerKeys(certificate, key)
    return None


def _is_current(certificate: x509.Certificate, now: datetime) -> bool:
    return certificate.not_valid_before_utc <= now < certificate.not_valid_after_utc - _RENEW_BEFORE


def _signed_by(certificate: x509.Certificate, signer: SignerKeys) -> bool:
    try:
        certificate.verify_directly_issued_by(signer.certificate)
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True


def _serves(files: Identity, signer: SignerKeys, hosts: Sequence[str], now: datetime) -> bool:
    found = _read(files, now)
    if found is None or not _signed_by(found.certificate, signer):
        return False
    covered = found.certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return set(_alternatives(hosts)) <= set(covered)


def _authority(now: datetime) -> SignerKeys:
    key = ec.generate_private_key(ec.SECP256R1())
    # Distinct names, so that one trust store can hold the authorities of several labs.
    subject = _subject(f"allotment-ca-{secrets.token_hex(4)}", ())
    builder = (
        _builder(subject, subject, key, now, _AUTHORITY_LIFE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
    )
    return SignerKeys(builder.sign(key, hashes.SHA256()), key)


def _signed(
    signer: SignerKeys, name: str, groups: Sequence[str], now: datetime, hosts: Sequence[str] = ()
) -> SignerKeys:
    """Sign a certificate for a server (with hosts) or a client."""
    key = ec.generate_private_key(ec.SECP256R1())
    purpose = ExtendedKeyUsageOID.SERVER_AUTH if hosts else ExtendedKeyUsageOID.CLIENT_AUTH
    key_identifier = signer.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    builder = (
        _builder(_subject(name, groups), signer.certificate.subject, key, now, _LIFE)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(key_identifier), critical=False)
    )
    if hosts:
        builder = builder.add_extension(x509.SubjectAlternativeName(_alternatives(hosts)), critical=False)
    return SignerKeys(builder.sign(signer.key, hashes.SHA256()), key)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, life: timedelta
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SLACK)
        .not_valid_after(now + life)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True, key_cert_sign=signs_certificates, crl_sign=signs_certificates,
        content_commitment=False, key_encipherment=False, data_encipherment=False, key_agreement=False,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _subject(name: str, groups: Sequence[str]) -> x509.Name:
    """The subject in the form that Kubernetes reads: common name for the user, organizations for groups."""
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _alternatives(hosts: Iterable[str]) -> list[x509.GeneralName]:
    return [_alternative(host) for host in hosts]


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _token(path: Path) -> str:
    content = read_or_create(
        path, lambda: secrets.token_urlsafe(32).encode(), lambda content: _TOKEN.fullmatch(content) is not None,
        "a token of at least 32 visible ASCII characters",
        "restore it from a backup, or remove it to create a new token",
    )  # fmt: skip
    return content.decode("ascii").strip()


def _write(files: Identity, made: SignerKeys) -> None:
    form = serialization.PrivateFormat.PKCS8
    pem = serialization.Encoding.PEM
    atomic_write.replace(files.key, made.key.private_bytes(pem, form, serialization.NoEncryption()))
    atomic_write.replace(files.certificate, made.certificate.public_bytes(pem))
