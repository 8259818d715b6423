from __future__ import annotations

import base64

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID

from allotment.apiserver.kinds.certificate_subject import Subject, subject_of
from tests.admission_requests.request import certificate_request

REQUEST = certificate_request("system:node:n1", "system:nodes", "länge" * 30)


def test_a_subject_has_a_name_and_organizations() -> None:
    assert subject_of(REQUEST) == Subject("system:node:n1", ["system:nodes", "länge" * 30])
    assert subject_of(certificate_request("ann")) == Subject("ann", [])


@pytest.mark.parametrize("encoding", [_ASN1Type.BMPString, _ASN1Type.UniversalString, _ASN1Type.PrintableString])
def test_a_name_is_read_in_each_encoding(encoding: _ASN1Type) -> None:
    organization = x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:masters", encoding)
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([organization]))
    pem = builder.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256()).public_bytes(Encoding.PEM)
    assert subject_of(base64.b64encode(pem).decode()) == Subject("", ["system:masters"])


def test_a_request_may_have_headers() -> None:
    with_header = base64.b64decode(REQUEST).replace(b"-----\n", b"-----\nComment: mine\n\n", 1)
    assert subject_of(base64.b64encode(with_header).decode()) == subject_of(REQUEST)


@pytest.mark.parametrize("length", range(0, 60, 7))
def test_a_truncated_request_has_no_subject(length: int) -> None:
    lines = base64.b64decode(REQUEST).split(b"\n")
    content = base64.b64encode(base64.b64decode(b"".join(lines[1:-2]))[:length])
    truncated = b"\n".join([lines[0], content, lines[-2]])
    assert subject_of(base64.b64encode(truncated).decode()) is None


@pytest.mark.parametrize("request_text", ["", "%%%", base64.b64encode(b"PEM").decode()])
def test_other_data_has_no_subject(request_text: str) -> None:
    assert subject_of(request_text) is None
