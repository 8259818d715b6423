"""Pods that a cluster has placed already: where they are, and the devices that their claims have there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from allotment.engine.cluster.identity import DeviceID
from allotment.model.contested_claims import is_set_aside
from allotment.model.core import Pod
from allotment.model.meta import Object, ObjectKey
from allotment.model.resource import Device, ResourceClaim, ResourceSlice
from allotment.tools.explain import Answer
from allotment.tools.explain.origin_mapping import owner_of
from allotment.tools.explain.report import given_claim


def is_bound(pod: Pod) -> bool:
    """Whether there is nothing left to decide about a pod."""
    return bool(pod.spec.node_name) or pod.status.phase in ("Succeeded", "Failed")


def answers(pods: Iterable[Pod], values: Sequence[Object]) -> list[Answer]:
    """What has become of each pod; ``values`` are the cluster's objects."""
    claims = {value.key: value for value in values if isinstance(value, ResourceClaim)}
    devices = _devices(values)
    return [_answer(pod, claims, devices) for pod in pods]


def of_claim(claim: ResourceClaim, values: Sequence[Object]) -> Answer:
    """What an allocated claim has, and who uses it."""
    users = [f"{user.resource}/{user.name}" for user in claim.status.reserved_for]
    note = f"it is reserved for {', '.join(users)}" if users else "nobody uses it"
    if is_set_aside(claim):
        note = "it was set aside: another scheduler gave its devices away, too, and it goes when they are free"
    given = given_claim(claim, "", False, _devices(values))
    return Answer(kind="ResourceClaim", name=str(claim.key), outcome="fits", claims=(given,), bound=True, notes=(note,))


def _devices(values: Sequence[Object]) -> dict[DeviceID, Device]:
    return {
        DeviceID(value.spec.driver, value.spec.pool.name, device.name): device
        for value in values
        if isinstance(value, ResourceSlice)
        for device in value.spec.devices or ()
    }


def _answer(pod: Pod, claims: dict[ObjectKey, ResourceClaim], devices: dict[DeviceID, Device]) -> Answer:
    made = {one.name: one.resource_claim_name for one in pod.status.resource_claim_statuses}
    named = [
        (entry.resource_claim_name or made.get(entry.name) or "", entry.resource_claim_template_name or "")
        for entry in pod.spec.resource_claims
    ]
    if pod.status.extended_resource_claim_status is not None:
        named.append((pod.status.extended_resource_claim_status.resource_claim_name, ""))
    given = []
    for name, template in named:
        claim = claims.get(ObjectKey(pod.metadata.namespace, name))
        if claim is not None and claim.status.allocation is not None:
            given.append(given_claim(claim, template, False, devices))
    return Answer(
        kind="Pod", name=str(pod.key), outcome="fits", node=pod.spec.node_name or "", claims=tuple(given),
        owner=owner_of(pod), bound=True, notes=(f"its phase is {pod.status.phase or 'Pending'}",),
    )  # fmt: skip
