"""Admin access to devices in use (KEP-5018): allowed only in namespaces that an administrator has labelled.

Upstream reports the first request or result with admin access, at a path without ``exactly``, and for templates without
the second ``spec``; the recorded responses contain these paths.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from allotment.model.resource import AllocationResult, DeviceRequest
from allotment.model.validation.errors import Errors, forbidden

LABEL = "resource.kubernetes.io/admin-access"

_TEXT = f"admin access to devices requires the `{LABEL}: true` label on the containing namespace"


def is_admin_namespace(namespace_labels: Mapping[str, str]) -> bool:
    """Whether admin access is allowed in a namespace with these labels; the value is case-sensitive."""
    return namespace_labels.get(LABEL) == "true"


def admin_requests(requests: Sequence[DeviceRequest], namespace_labels: Mapping[str, str]) -> Errors:
    """Check the requests of a new claim or template."""
    for index, request in enumerate(requests):
        if request.exactly is not None and request.exactly.admin_access:
            if not is_admin_namespace(namespace_labels):
                yield forbidden(f"spec.devices.requests[{index}].adminAccess", _TEXT)
            return


def admin_results(
    new: AllocationResult | None, old: AllocationResult | None, namespace_labels: Mapping[str, str]
) -> Errors:
    """Check a new allocation; admin access that was granted before stays."""
    if _first(old) is not None:
        return
    index = _first(new)
    if index is not None and not is_admin_namespace(namespace_labels):
        yield forbidden(f"status.allocation.devices.results[{index}].adminAccess", _TEXT)


def _first(allocation: AllocationResult | None) -> int | None:
    results = allocation.devices.results if allocation is not None else ()
    return next((index for index, result in enumerate(results) if result.admin_access), None)
