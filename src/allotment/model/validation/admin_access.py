"""Access to devices that others use (KEP-5018): only in namespaces that an administrator has labelled.

Upstream reports the first request or result that asks for it, at a path without ``exactly``, and for templates without
the second ``spec``; recorded answers have it so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from allotment.model.resource import AllocationResult, DeviceRequest
from allotment.model.validation.errors import Errors, forbidden

LABEL = "resource.kubernetes.io/admin-access"

_TEXT = f"admin access to devices requires the `{LABEL}: true` label on the containing namespace"


def is_admin_namespace(namespace_labels: Mapping[str, str]) -> bool:
    """Whether a namespace with these labels may have admin access; the value is case-sensitive."""
    return namespace_labels.get(LABEL) == "true"


def admin_requests(requests: Sequence[DeviceRequest], namespace_labels: Mapping[str, str]) -> Errors:
    """The check when a claim or a template is created."""
    for index, request in enumerate(requests):
        if request.exactly is not None and request.exactly.admin_access:
            if not is_admin_namespace(namespace_labels):
                yield forbidden(f"spec.devices.requests[{index}].adminAccess", _TEXT)
            return


def admin_results(
    new: AllocationResult | None, old: AllocationResult | None, namespace_labels: Mapping[str, str]
) -> Errors:
    """The check when an allocation is written; one that was granted stays."""
    if _first(old) is not None:
        return
    index = _first(new)
    if index is not None and not is_admin_namespace(namespace_labels):
        yield forbidden(f"status.allocation.devices.results[{index}].adminAccess", _TEXT)


def _first(allocation: AllocationResult | None) -> int | None:
    results = allocation.devices.results if allocation is not None else ()
    return next((index for index, result in enumerate(results) if result.admin_access), None)
