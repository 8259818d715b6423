"""A request with kube-apiserver's answer, and the objects that requests create."""

from __future__ import annotations

import base64
from typing import Any, Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from allotment.model.trees import Tree

CORE: Final = "/api/v1/namespaces"
_LABEL: Final = "pod-security.kubernetes.io/"


class Request(NamedTuple):
    """A request and its answer. ``warnings``: without code and agent. ``shown``: fields of the returned object.

    ``message``: of an error; ``{node}`` is the prefix of the Node authorizer's reasons, which 1.36 does not have.
    """

    method: str
    path: str
    body: Tree | None = None
    code: int = 201
    message: str = ""
    warnings: tuple[str, ...] = ()
    user: str = "admin"
    shown: Tree = {}

    def answer(self, release: str) -> tuple[int, str, tuple[str, ...]]:
        """The code, message and warnings of a release."""
        prefix = "" if release == "1.36" else "node: "
        return self.code, self.message.replace("{node}", prefix), self.warnings

    def shows(self, body: Tree) -> bool:
        """Whether the body of the response has the expected fields."""
        return _has(body, self.shown)


def _has(actual: object, expected: object) -> bool:
    if isinstance(actual, dict) and isinstance(expected, dict):
        return all(name in actual and _has(actual[name], value) for name, value in expected.items())
    return actual == expected


def levels(**modes: str) -> Tree:
    """The labels of a namespace with these Pod Security levels."""
    return {_LABEL + mode.replace("_", "-"): level for mode, level in modes.items()}


def pod(name: str, **spec: Any) -> Tree:
    """A pod to be created, by default with a container ``main``."""
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "main", "image": "busybox"}], **spec}}


def container(name: str = "main", **fields: Any) -> Tree:
    """A container; ``security`` is its security context."""
    if "security" in fields:
        fields["securityContext"] = fields.pop("security")
    return {"name": name, "image": "busybox", **fields}


def namespace(name: str, code: int = 201, message: str = "", **modes: str) -> Request:
    """Create a namespace with these Pod Security levels."""
    body = {"metadata": {"name": name, "labels": levels(**modes)}}
    return Request("POST", CORE, body, code, message)


def certificate_request(name: str, *organizations: str) -> str:
    """The field ``request`` of a CertificateSigningRequest for a subject."""
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in organizations]
    subject = x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    request = builder.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    return base64.b64encode(request.public_bytes(serialization.Encoding.PEM)).decode()
