"""APIServices: validation, and the status of those that this server itself serves."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Final

from allotment.apiserver.kinds.field_validation import service_name_problems
from allotment.apiserver.kinds.kind import Errors, KindRules, Write
from allotment.model.quoting import quote
from allotment.model.trees import Tree
from allotment.model.validation import names
from allotment.model.validation.errors import invalid, not_supported, required

BUCKET: Final = "apiservices.apiregistration.k8s.io"
_MAX_GROUP_PRIORITY: Final = 20_000
_MAX_VERSION_PRIORITY: Final = 1_000
_STATUSES: Final = ("False", "True", "Unknown")


def with_condition(tree: Tree, status: str, reason: str, message: str, now: str) -> Tree:
    """An APIService with the condition Available."""
    before = (tree.get("status") or {}).get("conditions") or ()
    known = next((each for each in before if each["type"] == "Available"), None)
    since = known["lastTransitionTime"] if known is not None and known["status"] == status else now
    condition = {
        "type": "Available", "status": status, "lastTransitionTime": since, "reason": reason, "message": message,
    }  # fmt: skip
    return {**tree, "status": {"conditions": [*(each for each in before if each is not known), condition]}}


def _with_local_status(tree: Tree, write: Write) -> Tree:
    """Groups of this server are always available."""
    if (tree.get("spec") or {}).get("service") is not None:
        return tree
    return with_condition(tree, "True", "Local", "Local APIServices are always available", write.now)


def _prepare_create(tree: Tree, write: Write) -> Tree:
    return _with_local_status({**tree, "status": {}}, write)


def _prepare_update(new: Tree, old: Tree, write: Write) -> Tree:
    return new if write.subresource else _with_local_status(new, write)


def _validate(tree: Tree, write: Write) -> Errors:
    spec = tree.get("spec") or {}
    group, version = spec.get("group") or "", spec.get("version") or ""
    name, expected = tree["metadata"].get("name") or "", f"{version}.{group}"
    if name != expected:
        yield invalid("metadata.name", name, f'must be `spec.version+"."+spec.group`: {quote(expected)}')
    if not group and version != "v1":
        yield required("spec.group", "only v1 may have an empty group and it better be legacy kube")
    if group:
        yield from names.subdomain(group, "spec.group")
    yield from (invalid("spec.version", version, problem) for problem in service_name_problems(version))
    for field, most in (("groupPriorityMinimum", _MAX_GROUP_PRIORITY), ("versionPriority", _MAX_VERSION_PRIORITY)):
        priority = spec.get(field) or 0
        if not 0 < priority <= most:
            yield invalid(f"spec.{field}", priority, f"must be positive and less than {most}")
    yield from _server(spec)


def _server(spec: Tree) -> Errors:
    service, skips = spec.get("service"), bool(spec.get("insecureSkipTLSVerify"))
    size = _size(spec.get("caBundle") or "")
    if service is None:
        if size:
            yield invalid("spec.caBundle", f"{size} bytes", "local APIServices may not have a caBundle")
        if skips:
            yield invalid("spec.insecureSkipTLSVerify", True, "local APIServices may not have insecureSkipTLSVerify")
        return
    for field in ("namespace", "name"):
        if not service.get(field):
            yield required(f"spec.service.{field}")
    port = service.get("port") or 0
    if not 1 <= port <= 65535:
        yield invalid("spec.service.port", port, "port is not valid: must be between 1 and 65535, inclusive")
    if skips and size:
        yield invalid("spec.insecureSkipTLSVerify", True, "may not be true if caBundle is present")


def _size(encoded: str) -> int:
    """The number of bytes of a base64 text."""
    try:
        return len(base64.b64decode(encoded))
    except binascii.Error:
        return len(encoded)


def _validate_update(new: Tree, old: Tree, write: Write) -> Errors:
    if write.subresource != "status":
        yield from _validate(new, write)
        return
    for index, condition in enumerate((new.get("status") or {}).get("conditions") or ()):
        if condition.get("status") not in _STATUSES:
            yield not_supported(f"status.conditions[{index}].status", condition.get("status") or "", _STATUSES)


def _any_name(name: str) -> list[str]:
    """The name is compared with group and version."""
    return []


RULES: Final[Mapping[str, KindRules]] = {
    BUCKET: KindRules(
        prepare_create=_prepare_create, validate_create=_validate, prepare_update=_prepare_update,
        validate_update=_validate_update, name=_any_name,
    ),
}  # fmt: skip
