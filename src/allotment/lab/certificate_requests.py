"""Certificate signing requests: their contents, and certificates that a lab's authority signs for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed448, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from allotment.lab.certificates import SignerKeys, signer_keys

#: The usages that are bits of the key usage, by their names in the API.
_KEY_USAGES: Final[Mapping[str, str]] = {
    "signing": "digital_signature", "digital signature": "digital_signature",
    "content commitment": "content_commitment", "key encipherment": "key_encipherment",
    "key agreement": "key_agreement", "data encipherment": "data_encipherment", "cert sign": "key_cert_sign",
    "crl sign": "crl_sign", "encipher only": "encipher_only", "decipher only": "decipher_only",
}  # fmt: skip
_EXTENDED_USAGES: Final[Mapping[str, x509.ObjectIdentifier]] = {
    "any": ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE, "server auth": ExtendedKeyUsageOID.SERVER_AUTH,
    "client auth": ExtendedKeyUsageOID.CLIENT_AUTH, "code signing": ExtendedKeyUsageOID.CODE_SIGNING,
    "email protection": ExtendedKeyUsageOID.EMAIL_PROTECTION, "s/mime": ExtendedKeyUsageOID.EMAIL_PROTECTION,
    "ipsec end system": x509.ObjectIdentifier("1.3.6.1.5.5.7.3.5"),
    "ipsec tunnel": x509.ObjectIdentifier("1.3.6.1.5.5.7.3.6"),
    "ipsec user": x509.ObjectIdentifier("1.3.6.1.5.5.7.3.7"), "timestamping": ExtendedKeyUsageOID.TIME_STAMPING,
    "ocsp signing": ExtendedKeyUsageOID.OCSP_SIGNING, "microsoft sgc": x509.ObjectIdentifier("1.3.6.1.4.1.311.10.3.3"),
    "netscape sgc": x509.ObjectIdentifier("2.16.840.1.113730.4.1"),
}  # fmt: skip
#: The keys that certificates can have.
_PUBLIC_KEYS: Final = (
    dsa.DSAPublicKey, ec.EllipticCurvePublicKey, ed448.Ed448PublicKey, ed25519.Ed25519PublicKey, rsa.RSAPublicKey,
)  # fmt: skip
#: A certificate starts to be valid before it is signed, for clients whose clocks are behind; it ends earlier by the
#: same time, unless it is valid for a short time only.
_BACKDATE: Final = timedelta(minutes=5)
_SHORT: Final = timedelta(hours=8)


class CertificateRequest(NamedTuple):
    """A request: the subject's name and organizations, and the numbers of its alternative names by type."""

    common_name: str
    organizations: tuple[str, ...]
    dns_names: int
    addresses: int
    emails: int
    uris: int
    parsed: x509.CertificateSigningRequest


def read(pem: bytes) -> CertificateRequest:
    """Parse a request in PEM. Raises ValueError if it is malformed or its signature is wrong."""
    parsed = x509.load_pem_x509_csr(pem)
    if not parsed.is_signature_valid:
        raise ValueError("unable to verify certificate request signature")
    names = _alternatives(parsed)
    dns_names, addresses, emails, uris = (
        sum(isinstance(name, kind) for name in names)
        for kind in (x509.DNSName, x509.IPAddress, x509.RFC822Name, x509.UniformResourceIdentifier)
    )
    subject = {oid: _values(parsed.subject, oid) for oid in (NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME)}
    common_name = subject[NameOID.COMMON_NAME][-1] if subject[NameOID.COMMON_NAME] else ""
    organizations = subject[NameOID.ORGANIZATION_NAME]
    return CertificateRequest(common_name, organizations, dns_names, addresses, emails, uris, parsed)


def _values(name: x509.Name, oid: x509.ObjectIdentifier) -> tuple[str, ...]:
    return tuple(str(attribute.value) for attribute in name.get_attributes_for_oid(oid))


def _alternatives(request: x509.CertificateSigningRequest) -> tuple[x509.GeneralName, ...]:
    try:
        return tuple(request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    except x509.ExtensionNotFound:
        return ()


def sign(folder: Path, request: CertificateRequest, usages: Iterable[str], lifetime: timedelta, now: datetime) -> bytes:
    """Return the certificate (PEM) for a request, signed by the authority in a folder, which is created if missing.

    Raises ValueError for a kind of key that certificates cannot have.
    """
    signer = signer_keys(folder, now)
    key = request.parsed.public_key()
    if not isinstance(key, _PUBLIC_KEYS):
        raise ValueError(f"unsupported public key: {type(key).__name__}")
    end = now + (lifetime if lifetime < _SHORT else lifetime - _BACKDATE)
    builder = (
        x509.CertificateBuilder()
        .subject_name(request.parsed.subject)
        .issuer_name(signer.certificate.subject)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATE)
        .not_valid_after(min(end, signer.certificate.not_valid_after_utc))
    )
    for extension, critical in _extensions(request, frozenset(usages), signer):
        builder = builder.add_extension(extension, critical)
    return builder.sign(signer.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _extensions(
    request: CertificateRequest, usages: frozenset[str], signer: SignerKeys
) -> Iterable[tuple[x509.ExtensionType, bool]]:
    """The extensions of a certificate; those of the request are dropped, except for the alternative names."""
    bits = {bit for usage, bit in _KEY_USAGES.items() if usage in usages}
    if bits:
        agreement = "key_agreement" in bits  # without it, the last two bits have no meaning
        usable = {bit: bit in bits and (agreement or not bit.endswith("_only")) for bit in _KEY_USAGES.values()}
        yield x509.KeyUsage(**usable), True
    extended = [oid for usage, oid in _EXTENDED_USAGES.items() if usage in usages]
    if extended:
        yield x509.ExtendedKeyUsage(list(dict.fromkeys(extended))), False
    yield x509.BasicConstraints(ca=False, path_length=None), True
    identifier = signer.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    yield x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), False
    if names := _alternatives(request.parsed):
        yield x509.SubjectAlternativeName(names), not list(request.parsed.subject)
