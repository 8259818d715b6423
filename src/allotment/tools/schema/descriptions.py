"""What the fields of claims and classes are for, in a sentence or two: what an editor shows beside them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class Meaning(NamedTuple):
    """The text, and the feature gate of Kubernetes without which the field is dropped."""

    text: str
    gate: str = ""


_SELECTORS: Final = Meaning("Conditions on devices. All must hold, besides those of the class.")
_CLASS: Final = Meaning("Which DeviceClass the devices are of. It must exist when a pod is scheduled.")
_MODE: Final = Meaning("ExactCount: as many as count says (the default). All: every matching device, all of them free.")
_COUNT: Final = Meaning("How many devices; 1 if left out. Not with allocationMode All.")
_TOLERATIONS: Final = Meaning(
    "Taints of devices that do not matter: tainted devices are not given otherwise.", "DRADeviceTaints"
)
_CAPACITY: Final = Meaning("How much of a device that several claims may share.", "DRAConsumableCapacity")
_FOR_REQUESTS: Final = Meaning("Names of the requests that this is for; all requests if left out.")

#: By type, and by type and field.
MEANINGS: Final[Mapping[str, Meaning]] = {
    "ResourceClaim": Meaning("Devices for one pod or for several that share them. A claim's spec cannot be changed."),
    "ResourceClaim.spec": Meaning("What is asked for."),
    "ResourceClaim.metadata": Meaning("Name, namespace, labels. The pods that use it are in the same namespace."),
    "ResourceClaim.status": Meaning("What was given, and to whom. Kubernetes writes it."),
    "ResourceClaimTemplate": Meaning("Makes a claim for every pod that names it, and deletes it with the pod."),
    "ResourceClaimTemplate.metadata": Meaning("Name and namespace: that of the pods that name it."),
    "ResourceClaimTemplate.spec": Meaning("What the claims are made of. Changes reach new pods only."),
    "ResourceClaimTemplateSpec.metadata": Meaning("Labels and annotations of the claims."),
    "ResourceClaimTemplateSpec.spec": Meaning("The spec of the claims."),
    "ResourceClaimSpec.devices": Meaning("Requests for devices, what they have in common, parameters for drivers."),
    "DeviceClaim.requests": Meaning("Requests, each for devices of one class. All must be met, on one node."),
    "DeviceClaim.constraints": Meaning("What devices of several requests, or several of one, must have in common."),
    "DeviceClaim.config": Meaning("Parameters for drivers, which they read when a pod's devices are prepared."),
    "DeviceRequest.name": Meaning("A DNS label by which containers, constraints and parameters name the request."),
    "DeviceRequest.exactly": Meaning("One way to meet the request."),
    "DeviceRequest.firstAvailable": Meaning(
        "Several ways to meet the request, the best first; the first that fits is taken.", "DRAPrioritizedList"
    ),
    "ExactDeviceRequest.deviceClassName": _CLASS,
    "ExactDeviceRequest.selectors": _SELECTORS,
    "ExactDeviceRequest.allocationMode": _MODE,
    "ExactDeviceRequest.count": _COUNT,
    "ExactDeviceRequest.adminAccess": Meaning(
        "Devices for watching them, though others use them. The namespace needs the label "
        'resource.kubernetes.io/admin-access: "true".',
        "DRAAdminAccess",
    ),
    "ExactDeviceRequest.tolerations": _TOLERATIONS,
    "ExactDeviceRequest.capacity": _CAPACITY,
    "DeviceSubRequest.name": Meaning("A DNS label; parameters and constraints name it after its request: gpu/large."),
    "DeviceSubRequest.deviceClassName": _CLASS,
    "DeviceSubRequest.selectors": _SELECTORS,
    "DeviceSubRequest.allocationMode": _MODE,
    "DeviceSubRequest.count": _COUNT,
    "DeviceSubRequest.tolerations": _TOLERATIONS,
    "DeviceSubRequest.capacity": _CAPACITY,
    "DeviceSelector.cel": Meaning("A CEL expression over one device."),
    "CELDeviceSelector.expression": Meaning(
        'True for devices that will do. It reads device.driver, device.attributes["DOMAIN"].NAME and '
        "device.capacity[\"DOMAIN\"].NAME; DOMAIN is the driver's name. Capacities compare with "
        "compareTo(quantity(…)), versions with compareTo(semver(…)). What a device lacks is an error: guard it with "
        '"NAME" in device.attributes["DOMAIN"].'
    ),
    "CapacityRequirements.requests": Meaning("Amounts by the name of the capacity."),
    "DeviceToleration.key": Meaning("The taint's key; every key if left out, with operator Exists."),
    "DeviceToleration.operator": Meaning("Exists: any value. Equal (the default): the value given."),
    "DeviceToleration.value": Meaning("The taint's value, with operator Equal."),
    "DeviceToleration.effect": Meaning("Only taints of this effect; of any if left out."),
    "DeviceToleration.tolerationSeconds": Meaning("With NoExecute: how long the pod may stay after the taint came."),
    "DeviceConstraint.requests": _FOR_REQUESTS,
    "DeviceConstraint.matchAttribute": Meaning(
        "All the devices have this attribute, with one value. In full, with its domain: gpu.nvidia.com/parentUUID."
    ),
    "DeviceConstraint.distinctAttribute": Meaning(
        "All the devices have this attribute, each with another value. In full, with its domain.",
        "DRAConsumableCapacity",
    ),
    "DeviceClaimConfiguration.requests": _FOR_REQUESTS,
    "DeviceClaimConfiguration.opaque": Meaning("Parameters that Kubernetes does not look into."),
    "OpaqueDeviceConfiguration.driver": Meaning("The name of the driver that they are for."),
    "OpaqueDeviceConfiguration.parameters": Meaning(
        "An object of the driver's own, with apiVersion and kind. What is wrong in it shows when a pod starts."
    ),
    "DeviceClass": Meaning("A kind of device that an administrator offers."),
    "DeviceClass.metadata": Meaning("Name and labels. A class is of no namespace."),
    "DeviceClass.spec": Meaning("Which devices are of the class, and their parameters."),
    "DeviceClassSpec.selectors": Meaning("Conditions on devices, all of which must hold. Test device.driver first."),
    "DeviceClassSpec.config": Meaning("Parameters for drivers that every use of the class gets; a claim's count more."),
    "DeviceClassSpec.extendedResourceName": Meaning(
        "A resource by which containers get these devices without a claim: limits {nvidia.com/gpu: 1}.",
        "DRAExtendedResource",
    ),
    "DeviceClassConfiguration.opaque": Meaning("Parameters that Kubernetes does not look into."),
    "ObjectMeta.name": Meaning("The object's name."),
    "ObjectMeta.generateName": Meaning("Beginning of a name that Kubernetes makes up."),
    "ObjectMeta.namespace": Meaning("The namespace; that of the context if left out."),
    "ObjectMeta.labels": Meaning("Labels, by which objects are selected."),
    "ObjectMeta.annotations": Meaning("Annotations: anything that programs and people note."),
    "PodSpec.resourceClaims": Meaning("Claims of the pod; its containers name them under resources.claims."),
    "PodResourceClaim.name": Meaning("The name by which containers of this pod name the claim."),
    "PodResourceClaim.resourceClaimName": Meaning("A claim in the pod's namespace, which others may use as well."),
    "PodResourceClaim.resourceClaimTemplateName": Meaning(
        "A template in the pod's namespace: the pod gets a claim of its own."
    ),
    "ResourceRequirements.claims": Meaning("Which of the pod's claims the container uses; without it no device."),
    "ContainerClaim.name": Meaning("The name of an entry of the pod's resourceClaims."),
    "ContainerClaim.request": Meaning("Only the devices of this request of the claim."),
}  # fmt: skip

#: What the API server writes and nobody else; it is neither described nor suggested.
SERVER_WRITES: Final = frozenset(
    {
        *(f"{kind}.status" for kind in ("ResourceClaim", "Pod", "Deployment", "StatefulSet", "DaemonSet", "Job")),
        *(
            f"ObjectMeta.{field}"
            for field in (
                "selfLink", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
                "deletionGracePeriodSeconds", "managedFields",
            )
        ),
    }
)  # fmt: skip
