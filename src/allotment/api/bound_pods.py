"""The answers for pods that have a node and claims that have their devices, which are not evaluated again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from allotment.engine.cluster.identity import DeviceID
from allotment.explanation import Answer
from allotment.explanation.origin_mapping import owner_of
from allotment.explanation.prepare_errors import PrepareError
from allotment.explanation.report import ClaimAllocation, claim_allocation
from allotment.model.contested_claims import is_contested
from allotment.model.core import Pod
from allotment.model.meta import Object, ObjectKey
from allotment.model.resource import Device, ResourceClaim, ResourceSlice


def is_bound(pod: Pod) -> bool:
    """Return whether a pod has a node or has ended."""
    return bool(pod.spec.node_name) or pod.status.phase in ("Succeeded", "Failed")


def answers_of_bound(
    pods: Iterable[Pod], values: Sequence[Object], errors: Mapping[ObjectKey, PrepareError] = {}
) -> list[Answer]:
    """Return the answer for each bound pod of a cluster with these objects; ``errors``: of pods that do not start."""
    bound = tuple(pods)
    if not bound:
        return []
    claims = {value.key: value for value in values if isinstance(value, ResourceClaim)}
    given = [[*_claims_of(pod, claims)] for pod in bound]
    devices = _devices(values, (claim for allocated in given for claim, _ in allocated))
    return [
        _answer(pod, [claim_allocation(claim, template, False, devices.get) for claim, template in allocated], errors)
        for pod, allocated in zip(bound, given, strict=True)
    ]


def answer_of_claim(claim: ResourceClaim, values: Sequence[Object]) -> Answer:
    """Return the allocation and the users of a claim."""
    users = [f"{user.resource}/{user.name}" for user in claim.status.reserved_for]
    note = f"the claim is reserved for {', '.join(users)}" if users else "the claim is not in use"
    if is_contested(claim):
        note = (
            "the claim was set aside, because another scheduler also allocated its devices; it is deleted when the"
            " devices are free"
        )
    given = claim_allocation(claim, "", False, _devices(values, (claim,)).get)
    return Answer(kind="ResourceClaim", name=str(claim.key), outcome="fits", claims=(given,), bound=True, notes=(note,))


def _devices(values: Iterable[Object], claims: Iterable[ResourceClaim]) -> dict[DeviceID, Device]:
    """Return the published devices of the pools from which the claims have their devices."""
    allocations = (claim.status.allocation for claim in claims)
    pools = {
        (result.driver, result.pool)
        for allocation in allocations
        if allocation is not None
        for result in allocation.devices.results
    }
    return {
        DeviceID(value.spec.driver, value.spec.pool.name, device.name): device
        for value in values
        if isinstance(value, ResourceSlice) and (value.spec.driver, value.spec.pool.name) in pools
        for device in value.spec.devices or ()
    }


def _claims_of(pod: Pod, claims: Mapping[ObjectKey, ResourceClaim]) -> Iterator[tuple[ResourceClaim, str]]:
    """Yield the allocated claims of a pod, each with the name of its template."""
    made = {status.name: status.resource_claim_name for status in pod.status.resource_claim_statuses}
    named = [
        (entry.resource_claim_name or made.get(entry.name) or "", entry.resource_claim_template_name or "")
        for entry in pod.spec.resource_claims
    ]
    if pod.status.extended_resource_claim_status is not None:
        named.append((pod.status.extended_resource_claim_status.resource_claim_name, ""))
    for name, template in named:
        claim = claims.get(ObjectKey(pod.metadata.namespace, name))
        if claim is not None and claim.status.allocation is not None:
            yield claim, template


def _answer(pod: Pod, given: Sequence[ClaimAllocation], errors: Mapping[ObjectKey, PrepareError]) -> Answer:
    error = errors.get(pod.key)
    notes: tuple[str, ...] = (f"the pod's phase is {pod.status.phase or 'Pending'}",)
    if error is not None:
        notes = (f"the pod cannot start, because its devices cannot be prepared: {error.cause}", error.advice)
    outcome = "fits" if error is None else "unprepared"
    return Answer(
        kind="Pod", name=str(pod.key), outcome=outcome, node=pod.spec.node_name or "", claims=tuple(given),
        owner=owner_of(pod), bound=True, notes=notes,
    )  # fmt: skip
