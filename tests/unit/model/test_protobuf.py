"""Protobuf bodies: recorded requests of kubectl and helm, recorded responses, and invalid bodies."""

from __future__ import annotations

import base64
import gzip
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allotment.model.fields import shape_of
from allotment.model.normal_form import normalize
from allotment.model.protobuf import MAGIC, ProtobufError, decode, encode
from allotment.model.strict_decoding import strict_decode
from tests.unit.model.objects import KINDS, random_object


def rows(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt") as file:
        return [json.loads(line) for line in file]


def message(number: int, body: bytes) -> bytes:
    """A length-delimited field."""
    assert len(body) < 1 << 14
    length = bytes([len(body)]) if len(body) < 128 else bytes([len(body) & 127 | 128, len(body) >> 7])
    return bytes([number << 3 | 2]) + length + body


def varint(number: int, value: int) -> bytes:
    return bytes([number << 3, value])


def envelope(api_version: str, kind: str, raw: bytes) -> bytes:
    return MAGIC + message(1, message(1, api_version.encode()) + message(2, kind.encode())) + message(2, raw)


JOB = envelope("batch/v1", "Job", message(1, message(1, b"j") + message(2, b"")) + message(3, varint(4, 0)))


def outcome(body: bytes) -> dict[str, Any] | ProtobufError:
    try:
        return decode(body)
    except ProtobufError as error:
        return error


def contains(sent: Any, stored: Any) -> bool:
    """Whether a stored object contains the sent one; fields that the server added and empty fields are ignored."""
    if isinstance(sent, dict):
        return isinstance(stored or {}, dict) and all(
            contains(value, (stored or {}).get(name)) for name, value in sent.items()
        )
    if isinstance(sent, list):
        return len(sent) == len(stored) and all(map(contains, sent, stored))
    return sent == stored or not sent


def test_decoded_requests_match_the_stored_objects(shared: Callable[[str], Path]) -> None:
    compared = 0
    for row in rows(shared("vectors/apiserver/28-protobuf-requests.jsonl.gz")):
        tree = decode(base64.b64decode(row["request"]["body_b64"]))
        stored_object = row["response"]["body"]
        if tree["kind"] == "DeleteOptions":
            assert stored_object["kind"] == "Status"
            continue
        # The status of reviews and token requests is set by the server.
        sent = {name: value for name, value in tree.items() if name != "status"}
        assert contains(sent, stored_object), row["name"]
        shape = shape_of(tree["apiVersion"], tree["kind"])
        assert shape is not None
        assert strict_decode(tree, tree["apiVersion"], tree["kind"], shape).violations == []
        compared += 1
    assert compared >= 10


def test_recorded_kubectl_and_helm_bodies_are_decoded(shared: Callable[[str], Path]) -> None:
    kinds = set()
    for row in rows(shared("vectors/apiserver/70-kubectl-helm-wire.jsonl.gz")):
        for body in (row["req_body"], row.get("resp_body")):
            # The recording contains only bodies whose bytes are valid text.
            if body and body.startswith("k8s\0") and "\ufffd" not in body:
                result = outcome(body.encode())
                kinds.add(result["kind"] if isinstance(result, dict) else result.kind)
    assert kinds == {
        "Namespace", "ConfigMap", "SelfSubjectAccessReview", "SelfSubjectRulesReview", "SelfSubjectReview",
        "TokenRequest", "DeleteOptions", "Status", "EventList", "SecretList",
    }  # fmt: skip


def test_empty_fields_are_omitted_as_in_json() -> None:
    assert decode(JOB) == {"kind": "Job", "apiVersion": "batch/v1", "metadata": {"name": "j"}, "status": {}}
    assert decode(envelope("v1", "ConfigMap", message(1, message(1, b"") + message(3, b"ns")))) == {
        "kind": "ConfigMap", "apiVersion": "v1", "metadata": {"namespace": "ns"},
    }  # fmt: skip


def test_empty_pointer_values_are_kept() -> None:
    # replicas: 0 is not the same as unset.
    assert decode(envelope("apps/v1", "Deployment", message(2, varint(1, 0))))["spec"] == {"replicas": 0}


def test_types_with_their_own_encoding() -> None:
    quantity = message(1, b"1.5Gi")
    pod = message(
        2, message(2, message(1, b"c") + message(8, message(1, message(1, b"memory") + message(2, quantity))))
    )
    assert decode(envelope("v1", "Pod", pod))["spec"]["containers"] == [
        {"name": "c", "resources": {"limits": {"memory": "1536Mi"}}}
    ]
    port = message(2, message(1, varint(3, 80) + message(4, varint(1, 1) + message(3, b"http"))))
    assert decode(envelope("v1", "Service", port))["spec"]["ports"] == [{"port": 80, "targetPort": "http"}]
    stamped = message(1, message(9, bytes([8, 0x80, 0x94, 0xEB, 0xDC, 0x03])))
    assert decode(envelope("v1", "Pod", stamped))["metadata"] == {"deletionTimestamp": "2001-09-09T01:46:40Z"}
    data = message(2, message(1, b"k") + message(2, b"\x00\xff"))
    assert decode(envelope("v1", "Secret", data))["data"] == {"k": "AP8="}


def test_embedded_structs_are_nested_messages() -> None:
    volume = message(1, b"v") + message(2, message(1, message(1, b"/tmp")))
    pod = decode(envelope("v1", "Pod", message(2, message(1, volume))))
    assert pod["spec"]["volumes"] == [{"name": "v", "hostPath": {"path": "/tmp"}}]


def test_unknown_fields_are_skipped() -> None:
    raw = message(1, message(1, b"n")) + message(15, b"later") + varint(14, 7)
    assert decode(envelope("v1", "ConfigMap", raw))["metadata"] == {"name": "n"}


def test_default_kind_is_used_without_a_kind_in_the_envelope() -> None:
    assert decode(MAGIC + message(2, message(1, message(1, b"n"))), "v1", "ConfigMap")["kind"] == "ConfigMap"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", "empty data"),
        (b"k8s\x00", "empty body"),
        (b'{"kind":"Pod"}', "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"),
        (envelope("v1", "Nope", b""), 'no kind "Nope" is registered for version "v1" in scheme'),
        (envelope("v1", "Pod", b"\x0a\x05x"), "unexpected EOF"),
        (envelope("v1", "Pod", b"\x08\x01"), "proto: wrong wireType = 0 for field Metadata"),
        (envelope("v1", "Pod", b"\x02\x00"), "proto: Pod: illegal tag 0 (wire type 2)"),
        (envelope("v1", "Pod", b"\x0c"), "proto: Pod: wiretype end group for non-group"),
        (envelope("v1", "Pod", b"\x7f"), "proto: illegal wireType 7"),
        (envelope("v1", "Pod", b"\xff" * 10 + b"\x01"), "proto: integer overflow"),
    ],
)
def test_invalid_bodies_are_errors(body: bytes, text: str) -> None:
    with pytest.raises(ProtobufError) as caught:
        decode(body)
    assert str(caught.value) == text


def test_nesting_depth_is_limited() -> None:
    schema = b""
    for _ in range(400):
        schema = b"\xe2\x01" + bytes([len(schema) & 127 | 128, len(schema) >> 7]) + schema  # not: …
    version = message(7, message(4, message(1, schema)))
    with pytest.raises(ProtobufError, match="recursion depth"):
        decode(envelope("apiextensions.k8s.io/v1", "CustomResourceDefinition", message(2, version)))


@given(st.binary(max_size=60))
def test_any_bytes_are_decoded_or_an_error(raw: bytes) -> None:
    for api_version, kind in (("v1", "Pod"), ("apiextensions.k8s.io/v1", "CustomResourceDefinition")):
        result = outcome(envelope(api_version, kind, raw))
        assert (result["kind"] if isinstance(result, dict) else result.kind) == kind
    for body in (raw, MAGIC + raw):
        outcome(body)


@given(st.data())
def test_damaged_bodies_are_decoded_or_an_error(data: st.DataObject) -> None:
    body = bytearray(JOB)
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(4, len(body) - 1))] = data.draw(st.integers(0, 255))
    result = outcome(bytes(body[: data.draw(st.integers(4, len(body)))]))
    assert isinstance(result, ProtobufError) or json.loads(json.dumps(result)) == result


def test_encoding_matches_recorded_responses(shared: Callable[[str], Path]) -> None:
    compared = 0
    for row in rows(shared("vectors/apiserver/20-crud-configmap.jsonl.gz")):
        if "body_b64" in row["response"]:
            body = base64.b64decode(row["response"]["body_b64"])
            assert encode(decode(body)) == body
            compared += 1
    assert compared == 2


@settings(max_examples=20, deadline=None)
@given(rng=st.randoms(use_true_random=True))
def test_every_kind_round_trips(rng: random.Random) -> None:
    for api_version, kind in KINDS:
        tree = random_object(api_version, kind, rng)
        shape = shape_of(api_version, kind)
        assert shape is not None
        body = encode(tree)
        assert json.dumps(normalize(decode(body), shape)) == json.dumps(tree)
        assert encode(tree) == body


def test_unset_fields_without_pointer_are_encoded() -> None:
    lease = {"kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "metadata": {"name": "a"}, "spec": {}}
    metadata = message(1, b"a") + b"".join(message(number, b"") for number in (2, 3, 4, 5, 6))
    raw = message(1, metadata + varint(7, 0) + message(8, b"")) + message(2, b"")
    assert encode(lease) == envelope("coordination.k8s.io/v1", "Lease", raw) + b"\x1a\x00\x22\x00"


def test_kind_without_a_message_is_an_error() -> None:
    with pytest.raises(LookupError, match="has no message"):
        encode({"kind": "Table", "apiVersion": "meta.k8s.io/v1"})
