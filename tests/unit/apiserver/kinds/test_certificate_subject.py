from __future__ import annotations

import base64

import pytest

from allotment.apiserver.kinds.certificate_subject import Subject, subject_of
from tests.admission_requests.request import certificate_request

REQUEST = certificate_request("system:node:n1", "system:nodes", "länge" * 30)


def test_a_subject_has_a_name_and_organizations() -> None:
    assert subject_of(REQUEST) == Subject("system:node:n1", ["system:nodes", "länge" * 30])
    assert subject_of(certificate_request("ann")) == Subject("ann", [])


@pytest.mark.parametrize("length", range(0, 60, 7))
def test_a_truncated_request_has_no_subject(length: int) -> None:
    lines = base64.b64decode(REQUEST).split(b"\n")
    content = base64.b64encode(base64.b64decode(b"".join(lines[1:-2]))[:length])
    truncated = b"\n".join([lines[0], content, lines[-2]])
    assert subject_of(base64.b64encode(truncated).decode()) is None


@pytest.mark.parametrize("request_text", ["", "%%%", base64.b64encode(b"PEM").decode()])
def test_other_data_has_no_subject(request_text: str) -> None:
    assert subject_of(request_text) is None
