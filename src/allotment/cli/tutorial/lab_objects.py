"""The pods, claims and devices of the tutorial's lab at one moment, as the checks read them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from allotment.engine.cluster.identity import DeviceID
from allotment.engine.diagnosis.published_names import kind_of
from allotment.model.core import Pod
from allotment.model.quantity import Quantity
from allotment.model.resource import Device, ResourceClaim, ResourceSlice

#: The namespace of all steps.
NAMESPACE: Final = "default"


class AllocatedDevice(NamedTuple):
    """A device of a pod, with the claim that it is allocated to."""

    claim: str
    id: DeviceID
    kind: str
    device: Device

    def __str__(self) -> str:
        """``gpu-0 (NVIDIA H100 80GB HBM3)``."""
        return f"{self.id.device} ({self.kind})"


@dataclass(frozen=True, slots=True)
class LabObjects:
    """All pods, claims and slices of the lab."""

    pods: tuple[Pod, ...] = ()
    claims: tuple[ResourceClaim, ...] = ()
    slices: tuple[ResourceSlice, ...] = ()

    def pod(self, name: str) -> Pod | None:
        """Return the pod of this name in the tutorial's namespace, unless it is being deleted."""
        return next((pod for pod in self._living() if pod.metadata.name == name), None)

    def pods_of(self, app: str) -> tuple[Pod, ...]:
        """Return the pods with a label ``app`` in the tutorial's namespace, by name."""
        found = (pod for pod in self._living() if pod.metadata.labels.get("app") == app)
        return tuple(sorted(found, key=lambda pod: pod.metadata.name))

    def elsewhere(self, name: str) -> str:
        """Return another namespace with a pod of this name, if there is one."""
        others = (pod.metadata.namespace for pod in self.pods if pod.metadata.name == name)
        return next((namespace for namespace in others if namespace != NAMESPACE), "")

    def devices_of(self, pod: Pod) -> tuple[AllocatedDevice, ...]:
        """Return the devices of a pod's claims."""
        made = {status.name: status.resource_claim_name for status in pod.status.resource_claim_statuses}
        names = {entry.resource_claim_name or made.get(entry.name) for entry in pod.spec.resource_claims}
        return tuple(
            device
            for claim in self.claims
            if claim.metadata.namespace == pod.metadata.namespace and claim.metadata.name in names
            for device in self._devices_of(claim)
        )

    def free(self, node: str) -> int:
        """Return the number of devices of a node that no claim has."""
        used = {device.id for claim in self.claims for device in self._devices_of(claim)}
        return sum(id not in used for id, _, on in self._published() if on == node)

    def node_with_memory(self, minimum: Quantity) -> str:
        """Return the first node with a device of at least this memory."""
        return next((on for _, device, on in self._published() if memory_of(device) >= minimum), "")

    def inside(self) -> Iterator[Pod]:
        """Return all pods in the tutorial's namespace."""
        return (pod for pod in self.pods if pod.metadata.namespace == NAMESPACE)

    def _living(self) -> Iterator[Pod]:
        return (pod for pod in self.inside() if not pod.metadata.deletion_timestamp)

    def _devices_of(self, claim: ResourceClaim) -> Iterator[AllocatedDevice]:
        published = {id: device for id, device, _ in self._published()}
        for result in claim.status.allocation.devices.results if claim.status.allocation else ():
            id = DeviceID(result.driver, result.pool, result.device)
            device = published.get(id, Device(name=result.device))
            yield AllocatedDevice(claim.metadata.name, id, kind_of(device, result.driver), device)

    def _published(self) -> Iterator[tuple[DeviceID, Device, str]]:
        for value in self.slices:
            for device in value.spec.devices or ():
                yield DeviceID(value.spec.driver, value.spec.pool.name, device.name), device, value.spec.node_name or ""


def memory_of(device: Device) -> Quantity:
    """Return the published memory of a device; 0 if it publishes none."""
    found = (capacity.value for name, capacity in device.capacity.items() if name.rpartition("/")[2] == "memory")
    return next(found, Quantity.ZERO)
