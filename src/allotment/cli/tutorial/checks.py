"""The checks of the steps: whether the objects in the lab are as intended, or else the likely mistake."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from allotment.cli.tutorial.lab_objects import NAMESPACE, AllocatedDevice, LabObjects, memory_of
from allotment.cli.tutorial.step import Check, Met, Unmet
from allotment.engine.claims.constraints import find_attribute
from allotment.model.core import Pod
from allotment.model.quantity import Quantity
from allotment.phrases import counted, listed

#: What every card that is sold with 80 GB publishes at least.
MEMORY_80_GB: Final = Quantity.parse("79Gi")
_SCHEDULED: Final = "PodScheduled"


class DeviceRequirement(NamedTuple):
    """The device that a step requires: as text, and as a test."""

    text: str
    test: Callable[[AllocatedDevice], bool]


def of_80_gb(device: AllocatedDevice) -> bool:
    """Return whether a device has the memory of a card of 80 GB."""
    return memory_of(device.device) >= MEMORY_80_GB


def of_profile(profile: str) -> Callable[[AllocatedDevice], bool]:
    """Return a test for MIG devices of a profile."""

    def test(device: AllocatedDevice) -> bool:
        found = find_attribute(device.device, device.id.driver, f"{device.id.driver}/profile")
        return found is not None and found.string == profile

    return test


def any_gpu(device: AllocatedDevice) -> bool:
    """Return True: every device of the lab is a GPU or a part of one."""
    return True


def runs(name: str, required: DeviceRequirement, because: str) -> Check:
    """Return the check that a pod runs with the required device. ``because``: why it gets them."""

    def check(objects: LabObjects) -> Met | Unmet:
        pod = objects.pod(name)
        if pod is None:
            return Unmet(_elsewhere(objects, name))
        if refusal := _refusal(pod):
            return Unmet(pending=name, refusal=refusal)
        if pod.status.phase != "Running":
            return Unmet()
        devices = objects.devices_of(pod)
        if not devices:
            return Unmet(
                f"Pod {name} runs without a device, because no container of it has a claim. The claims of a pod cannot "
                "be changed: delete the pod, complete the manifest, and apply it again."
            )
        wrong = [str(device) for device in devices if not required.test(device)]
        if wrong:
            return Unmet(
                f"Pod {name} runs with {listed(wrong)}, but {required.text} is required. Delete the pod, "
                "correct the request, and apply it again."
            )
        on = f"on node {pod.spec.node_name} with {listed(map(str, devices))}"
        return Met(f"Pod {name} runs {on}: {because}.")

    return check


def share_one_device(app: str, count: int, because: str) -> Check:
    """Return the check that the pods of a Deployment run with one device, of one claim."""

    def check(objects: LabObjects) -> Met | Unmet:
        pods = objects.pods_of(app)
        for pod in pods:
            if refusal := _refusal(pod):
                return Unmet(pending=pod.metadata.name, refusal=refusal)
        running = [pod for pod in pods if pod.status.phase == "Running"]
        if len(running) < count:
            return Unmet()
        devices = {device.id: device for pod in running for device in objects.devices_of(pod)}
        if not devices:
            return Unmet(
                f"The pods run without a device: the Deployment has no claim. Add it with allot claim, and apply "
                f"{app}.yaml again."
            )
        if len(devices) > 1:
            return Unmet(
                f"The pods have {counted(len(devices), 'device')}: with a template, each pod gets a claim of its own. "
                "Pods share a device if they name one ResourceClaim (resourceClaimName)."
            )
        (device,) = devices.values()
        return Met(f"{counted(len(running), 'pod')} share {device} of node {running[0].spec.node_name}: {because}.")

    return check


def is_pending(name: str, because: str) -> Check:
    """Return the check that a pod cannot be scheduled."""

    def check(objects: LabObjects) -> Met | Unmet:
        pod = objects.pod(name)
        if pod is None:
            return Unmet(_elsewhere(objects, name))
        if _refusal(pod):
            return Met(f"Pod {name} is pending: {because}.")
        if pod.status.phase == "Running":
            return Met(f"Pod {name} runs already: its manifest is different from the packaged one.")
        return Unmet()

    return check


def nothing_left(objects: LabObjects) -> Met | Unmet:
    """Check that the tutorial's namespace has no pods and no claims."""
    pods = [pod.metadata.name for pod in objects.inside()]
    claims = [claim.metadata.name for claim in objects.claims if claim.metadata.namespace == NAMESPACE]
    if pods:
        return Unmet()
    if claims:
        return Unmet(
            f"No pods are left, but {listed(claims)}: a claim that was not made from a template is not deleted with "
            f"its pods. Delete it with allot delete resourceclaim {' '.join(claims)}."
        )
    return Met("No pods and no claims are left: a claim that was made from a template is deleted with its pod.")


def _refusal(pod: Pod) -> str:
    """Return the scheduler's reason and the pod, if it could not be placed; empty for other pods."""
    found = next((entry for entry in pod.status.conditions if entry.type == _SCHEDULED), None)
    return f"{pod.metadata.uid} {found.message}" if found is not None and found.status == "False" else ""


def _elsewhere(objects: LabObjects, name: str) -> str:
    namespace = objects.elsewhere(name)
    return f"Pod {name} is in namespace {namespace}. The tutorial uses namespace default." if namespace else ""
