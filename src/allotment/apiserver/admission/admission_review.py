"""AdmissionReview: the request that a webhook gets, and the verified answer."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from allotment.apiserver import go_json
from allotment.apiserver.admission.attributes import Attributes, admission_request
from allotment.cluster.errors import StatusError
from allotment.model.base64_text import base64_error_offset
from allotment.model.quoting import quote
from allotment.model.trees import Tree

_GROUP: Final = "admission.k8s.io"
_KIND: Final = "AdmissionReview"
_JSON_PATCH: Final = "JSONPatch"

_encode = msgspec.json.Encoder().encode


class InvalidReview(Exception):
    """Raised for an answer that is not a valid AdmissionReview."""


class UndecodableReview(Exception):
    """Raised for an answer with a value of the wrong type."""


#: The fields of a response: their types, and these in Go.
_FIELDS: Final[Mapping[str, tuple[type, str]]] = {
    "uid": (str, "types.UID"), "allowed": (bool, "bool"), "status": (dict, "v1.Status"), "patch": (str, "[]uint8"),
    "patchType": (str, "v1.PatchType"), "auditAnnotations": (dict, "map[string]string"), "warnings": (list, "[]string"),
}  # fmt: skip
_STATUS_FIELDS: Final[Mapping[str, tuple[type, str]]] = {
    "metadata": (dict, "v1.ListMeta"), "status": (str, "string"), "message": (str, "string"),
    "reason": (str, "v1.StatusReason"), "details": (dict, "v1.StatusDetails"), "code": (int, "int32"),
}  # fmt: skip
_JSON_TYPES: Final = {bool: "bool", int: "number", float: "number", str: "string", dict: "object", list: "array"}


class Decision(NamedTuple):
    """The decision of a webhook. ``patch``: operations of a JSON patch; None if it has none."""

    is_allowed: bool
    result: Tree | None = None
    patch: list[Any] | None = None
    warnings: Sequence[str] = ()


def review_request(attributes: Attributes, version: str, uid: str = "") -> Tree:
    """The AdmissionRequest, with the objects in a version."""
    request = admission_request(attributes, version)
    return {
        **request, "uid": uid, "object": attributes.converted(attributes.new, version),
        "oldObject": attributes.converted(attributes.old, version),
    }  # fmt: skip


def review_body(request: Tree, review_version: str) -> bytes:
    """The body of a call."""
    return _encode({"kind": _KIND, "apiVersion": f"{_GROUP}/{review_version}", "request": request})


def decision(answer: Any, uid: str, review_version: str, *, mutating: bool) -> Decision:
    """The decision in an answer. Raises InvalidReview, UndecodableReview and UndecodablePatch."""
    review: Tree = answer if isinstance(answer, dict) else {}
    response = review.get("response")
    if not isinstance(response, dict):
        raise InvalidReview("webhook response was absent")
    _check_types(response)
    patch, patch_type = response.get("patch") or "", response.get("patchType")
    if review_version == "v1":
        _verify(review, response, uid)
        _verify_patch_type(patch, patch_type, mutating=mutating)
    operations = _operations(patch) if mutating and patch else None
    return Decision(
        response.get("allowed") is True, response.get("status"), operations, response.get("warnings") or ()
    )  # fmt: skip


def _check_types(response: Tree) -> None:
    """Raise UndecodableReview for the first value of a response that has the wrong type."""
    for name, (expected, in_go) in _FIELDS.items():
        _check_type(response.get(name), expected, f"AdmissionResponse.response.{name}", in_go)
    for name, (expected, in_go) in _STATUS_FIELDS.items():
        _check_type((response.get("status") or {}).get(name), expected, f"Status.response.status.{name}", in_go)
    for item in response.get("warnings") or ():
        _check_type(item, str, "AdmissionResponse.response.warnings", "string")
    fault = base64_error_offset(str(response.get("patch") or "").encode("utf-8", "replace"))
    if fault is not None:
        raise UndecodableReview(f"illegal base64 data at input byte {fault}")


def _check_type(value: Any, expected: type, field: str, in_go: str) -> None:
    if value is not None and type(value) is not expected:
        found = _JSON_TYPES[type(value)]
        raise UndecodableReview(f"json: cannot unmarshal {found} into Go struct field {field} of type {in_go}")


def _verify(review: Tree, response: Tree, uid: str) -> None:
    given = response.get("uid") or ""
    if given != uid:
        raise InvalidReview(f"expected response.uid={quote(uid)}, got {quote(str(given))}")
    expected = f"{_GROUP}/v1, Kind={_KIND}"
    actual = f"{review.get('apiVersion') or '/'}, Kind={review.get('kind') or ''}"
    if actual != expected:
        raise InvalidReview(f"expected webhook response of {expected}, got {actual}")


def _verify_patch_type(patch: str, patch_type: str | None, *, mutating: bool) -> None:
    if not mutating:
        if patch:
            raise InvalidReview("validating webhook may not return response.patch")
        if patch_type is not None:
            raise InvalidReview("validating webhook may not return response.patchType")
    elif patch and patch_type is None:
        raise InvalidReview("webhook returned response.patch but not response.patchType")
    elif not patch and patch_type is not None:
        raise InvalidReview("webhook returned response.patchType but not response.patch")
    elif patch_type == "":
        raise InvalidReview('webhook returned invalid response.patchType of ""')


def unsupported_patch_type(answer: Tree) -> str:
    """The type of a patch that is no JSON patch; else empty."""
    patch_type = answer["response"].get("patchType")
    return "" if patch_type in (None, _JSON_PATCH) else str(patch_type)


class UndecodablePatch(Exception):
    """Raised for a patch that is not a JSON patch."""


def _operations(patch: str) -> list[Any]:
    """The operations of a JSON patch in base64. Raises UndecodablePatch."""
    try:
        operations = go_json.decode(base64.b64decode(patch))
    except ValueError as error:
        raise UndecodablePatch(str(error)) from None
    if type(operations) is not list:
        kind = "object" if type(operations) is dict else type(operations).__name__
        raise UndecodablePatch(f"json: cannot unmarshal {kind} into Go value of type jsonpatch.Patch")
    return operations


def rejection(webhook: str, result: Tree | None) -> StatusError:
    """The error of a request that a webhook denies, with the code, the reason and the details that it gives."""
    status: Tree = dict(result or {})
    explanation = status.get("message") or status.get("reason")
    denied = f"admission webhook {quote(webhook)} denied the request"
    code = max(status.get("code") or 0, 400)
    given = {
        "kind": "Status", "apiVersion": "v1", "metadata": status.get("metadata") or {}, "status": "Failure",
        "message": f"{denied}: {explanation}" if explanation else f"{denied} without explanation",
        "reason": status.get("reason"), "details": status.get("details"), "code": code if code < 1000 else 500,
    }  # fmt: skip
    return StatusError({key: value for key, value in given.items() if value is not None})
