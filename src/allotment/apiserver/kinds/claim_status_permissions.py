"""Permissions for parts of a claim's status, in addition to those for the status subresource (KEP-4817, 1.36).

Allocation and reservations require a permission on ``resourceclaims/binding``, the devices of a driver one on
``resourceclaims/driver`` with the driver's name. The verbs of the latter state which nodes they apply to:
``associated-node:update`` only to claims that are allocated on the node of the service account's pod,
``arbitrary-node:update`` to all. Neither subresource is served.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from allotment.apiserver.kinds.kind import Write
from allotment.model.fields import GROUP
from allotment.model.quoting import quote
from allotment.model.resource import AllocatedDeviceStatus, AllocationResult, ResourceClaim, ResourceClaimStatus
from allotment.model.validation.errors import Errors, forbidden

GATE: Final = "DRAResourceClaimGranularStatusAuthorization"
_CLAIMS: Final = "resourceclaims"
_ACCOUNT_PREFIX: Final = "system:serviceaccount:"
_NODE_NAME: Final = "authentication.kubernetes.io/node-name"


def status_errors(new: ResourceClaim, old: ResourceClaim, write: Write) -> Errors:
    """An error for each part of the status that the user may not change."""
    if not write.features.enabled(GATE):
        return
    yield from _binding_errors(new.status, old.status, write)
    if write.features.enabled("DRAResourceClaimDeviceStatus") and new.status.allocation is not None:
        yield from _device_errors(new.status, old.status, write)


def _binding_errors(new: ResourceClaimStatus, old: ResourceClaimStatus, write: Write) -> Errors:
    if (new.allocation, new.reserved_for) == (old.allocation, old.reserved_for):
        return
    refusal = write.authorize(write.user, write.verb, GROUP, _CLAIMS, "binding")
    if refusal is not None:
        yield forbidden(
            "status.allocation",
            f'changing status.allocation or status.reservedFor requires resource="{_CLAIMS}/binding", '
            f'verb="{write.verb}" permission: {_CLAIMS}.{GROUP} is forbidden: {refusal}',
        )


def _device_errors(new: ResourceClaimStatus, old: ResourceClaimStatus, write: Write) -> Errors:
    drivers = sorted(set(_drivers_of_changes(new, old)))
    scopes = ("associated-node", "arbitrary-node") if _is_on_node_of(write, new.allocation) else ("arbitrary-node",)
    verbs = [f"{scope}:{write.verb}" for scope in scopes]
    for driver in drivers:
        refusals = [
            write.authorize(write.user, verb, GROUP, _CLAIMS, "driver", write.namespace, driver) for verb in verbs
        ]
        if None not in refusals:
            yield forbidden(
                "status.devices",
                f'changing status.devices requires resource="{_CLAIMS}/driver", verb="[{" ".join(verbs)}]" permission: '
                f"{_CLAIMS}.{GROUP} {quote(driver)} is forbidden: {refusals[0]}",
            )


def _drivers_of_changes(new: ResourceClaimStatus, old: ResourceClaimStatus) -> Iterator[str]:
    """The driver of each device whose status was added, changed or removed."""
    before = {_key(device): device for device in old.devices}
    for device in new.devices:
        if before.pop(_key(device), None) != device:
            yield device.driver
    for device in before.values():
        yield device.driver


def _key(device: AllocatedDeviceStatus) -> tuple[str, str, str, str]:
    return device.driver, device.pool, device.device, device.share_id or ""


def _is_on_node_of(write: Write, allocation: AllocationResult | None) -> bool:
    """Whether the user is a service account whose token states the only node of the allocation."""
    if not write.user.name.startswith(_ACCOUNT_PREFIX) or allocation is None or allocation.node_selector is None:
        return False
    terms = allocation.node_selector.node_selector_terms
    if len(terms) != 1 or terms[0].match_expressions or len(terms[0].match_fields) != 1:
        return False
    requirement = terms[0].match_fields[0]
    if requirement.key != "metadata.name" or requirement.operator != "In":
        return False
    nodes = write.user.extra.get(_NODE_NAME, ())
    return len(nodes) == 1 and tuple(requirement.values) == tuple(nodes)
