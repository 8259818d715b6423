"""A lab signs certificate requests for Kubernetes' own signers; its server accepts client certificates of users."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from allotment.cluster.client import Client
from allotment.lab import certificates
from allotment.lab.certificate_requests import read, sign
from allotment.lab.certificate_signing import REQUESTS
from allotment.lab.control_plane import running
from allotment.lab.settings import Settings
from allotment.model.trees import Tree
from tests.polling import until

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
KUBELET = ("digital signature", "client auth")
SERVING = ("digital signature", "key encipherment", "server auth")


def request(name: str, *groups: str, dns: Sequence[str] = ()) -> bytes:
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    subject = x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    if dns:
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(name) for name in dns]), False)
    signed = builder.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    return signed.public_bytes(serialization.Encoding.PEM)


def signing_request(name: str, signer: str, usages: Sequence[str], pem: bytes) -> Tree:
    spec = {"request": base64.b64encode(pem).decode(), "signerName": f"kubernetes.io/{signer}", "usages": [*usages]}
    return {"metadata": {"name": name}, "spec": spec}


def test_a_certificate_has_the_names_and_usages_of_the_request(tmp_path: Path) -> None:
    parsed = read(request("web", "team", dns=["web.example.com"]))
    assert (parsed.common_name, parsed.organizations, parsed.dns_names) == ("web", ("team",), 1)
    pem = sign(tmp_path, parsed, SERVING, timedelta(hours=10), NOW)
    certificate = x509.load_pem_x509_certificate(pem)
    certificate.verify_directly_issued_by(certificates.signer_keys(tmp_path, NOW).certificate)
    assert certificate.subject.rfc4514_string() == "CN=web,O=team"
    assert certificate.not_valid_before_utc == NOW - timedelta(minutes=5)
    assert certificate.not_valid_after_utc == NOW + timedelta(hours=10) - timedelta(minutes=5)
    usage = certificate.extensions.get_extension_for_class(x509.KeyUsage)
    assert usage.critical
    assert usage.value.key_encipherment
    assert not usage.value.key_cert_sign
    alternatives = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert alternatives.get_values_for_type(x509.DNSName) == ["web.example.com"]


def test_short_certificates_end_when_they_should(tmp_path: Path) -> None:
    pem = sign(tmp_path, read(request("web")), KUBELET, timedelta(hours=1), NOW)
    assert x509.load_pem_x509_certificate(pem).not_valid_after_utc == NOW + timedelta(hours=1)


def test_a_request_whose_signature_is_wrong_is_refused() -> None:
    first = x509.load_pem_x509_csr(request("web")).public_bytes(serialization.Encoding.DER)
    broken = base64.b64encode(first[:-2] + b"\x01\x01").decode()
    pem = f"-----BEGIN CERTIFICATE REQUEST-----\n{broken}\n-----END CERTIFICATE REQUEST-----\n"
    with pytest.raises(ValueError, match=r"."):
        read(pem.encode())


async def approved(client: Client, tree: Tree) -> Tree:
    """The request once it is approved and the signers have decided on it."""
    created = await client.create(REQUESTS, tree)
    name = created["metadata"]["name"]
    condition = {"type": "Approved", "status": "True", "reason": "Tested", "message": "by a person"}
    current = await client.get(REQUESTS, name)
    if not (current.get("status") or {}).get("conditions"):
        await client.update(REQUESTS, {**current, "status": {"conditions": [condition]}}, subresource="approval")

    async def is_decided() -> bool:
        status = (await client.get(REQUESTS, name))["status"]
        return "certificate" in status or any(each["type"] == "Failed" for each in status["conditions"])

    await until(is_decided)
    return dict((await client.get(REQUESTS, name))["status"])


def test_the_signers_of_a_lab_accept_and_refuse_what_those_of_kubernetes_do() -> None:
    node, nodes = "system:node:n1", "system:nodes"
    failures = [
        ("kube-apiserver-client", SERVING, request("bob"), "invalid usage for client certificate: server auth"),
        ("kube-apiserver-client", SERVING[:1], request("bob"),
         "missing required usage for client certificate: client auth"),
        ("kube-apiserver-client-kubelet", KUBELET, request("bob", nodes),
         "subject common name does not begin with system:node:"),
        ("kube-apiserver-client-kubelet", KUBELET, request(node), "subject organization is not system:nodes"),
        ("kube-apiserver-client-kubelet", KUBELET, request(node, nodes, dns=["n1"]),
         "DNS subjectAltNames are not allowed"),
        ("kubelet-serving", SERVING, request(node, nodes), "DNS or IP subjectAltName is required"),
        ("kubelet-serving", KUBELET, request(node, nodes, dns=["n1"]),
         "usages did not match [digital signature key encipherment server auth]"),
    ]  # fmt: skip

    async def scenario() -> None:
        async with running(Settings(fleet=(), tls=False)) as plane:
            client = plane.client()
            for number, (signer, usages, pem, message) in enumerate(failures):
                status = await approved(client, signing_request(f"failed-{number}", signer, usages, pem))
                failed = status["conditions"][-1]
                assert (failed["type"], failed["reason"]) == ("Failed", "SignerValidationFailure")
                assert failed["message"] == message
            for signer, usages, pem in (
                ("kube-apiserver-client", ("client auth",), request("bob", "team")),
                ("kubelet-serving", SERVING, request(node, nodes, dns=["n1"])),
            ):
                status = await approved(client, signing_request(signer, signer, usages, pem))
                certificate = x509.load_pem_x509_certificate(base64.b64decode(status["certificate"]))
                assert certificate.subject == x509.load_pem_x509_csr(pem).subject

    asyncio.run(scenario())


def test_client_certificates_of_kubelets_are_approved_for_users_with_the_permission() -> None:
    async def scenario() -> None:
        async with running(Settings(fleet=(), tls=False)) as plane:
            pem = request("system:node:n1", "system:nodes")
            tree = signing_request("k", "kube-apiserver-client-kubelet", KUBELET, pem)
            await plane.client().create(REQUESTS, tree)

            async def status() -> Tree:
                return dict((await plane.client().get(REQUESTS, "k")).get("status") or {})

            async def is_signed() -> bool:
                return "certificate" in await status()

            await until(is_signed)
            assert [each["reason"] for each in (await status())["conditions"]] == ["AutoApproved"]

    asyncio.run(scenario())
