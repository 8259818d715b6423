"""What the fields of claims and classes are for, in a sentence or two: what an editor shows beside them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class FieldDescription(NamedTuple):
    """The text, and the feature gate of Kubernetes without which the field is dropped."""

    text: str
    gate: str = ""


_SELECTORS: Final = FieldDescription("Conditions on devices. All must hold, besides those of the class.")
_CLASS: Final = FieldDescription("Which DeviceClass the devices are of. It must exist when a pod is scheduled.")
_MODE: Final = FieldDescription("ExactCount: as many as count says (the default). All: every matching device, all of them free.")
_COUNT: Final = FieldDescription("How many devices; 1 if left out. Not with allocationMode All.")
_TOLERATIONS: Final = FieldDescription(
    "Taints of devices that do not matter: tainted devices are not given otherwise.", "DRADeviceTaints"
)
_CAPACITY: Final = FieldDescription("How much of a device that several claims may share.", "DRAConsumableCapacity")
_FOR_REQUESTS: Final = FieldDescription("Names of the requests that this is for; all requests if left out.")

#: By type, and by type and field.
DESCRIPTIONS: Final[Mapping[str, FieldDescription]] = {
    "ResourceClaim": FieldDescription("Devices for one pod or for several that share them. A claim's spec cannot be changed."),
    "ResourceClaim.spec": FieldDescription("What is asked for."),
    "ResourceClaim.metadata": FieldDescription("Name, namespace, labels. The pods that use it are in the same namespace."),
    "ResourceClaim.status": FieldDescription("What was given, and to whom. Kubernetes writes it."),
    "ResourceClaimTemplate": FieldDescription("Makes a claim for every pod that names it, and deletes it with the pod."),
    "ResourceClaimTemplate.metadata": FieldDescription("Name and namespace: that of the pods that name it."),
    "ResourceClaimTemplate.spec": FieldDescription("What the claims are made of. Changes reach new pods only."),
    "ResourceClaimTemplateSpec.metadata": FieldDescription("Labels and annotations of the claims."),
    "ResourceClaimTemplateSpec.spec": FieldDescription("The spec of the claims."),
    "ResourceClaimSpec.devices": FieldDescription("Requests for devices, what they have in common, parameters for drivers."),
    "DeviceClaim.requests": FieldDescription("Requests, each for devices of one class. All must be met, on one node."),
    "DeviceClaim.constraints": FieldDescription("What devices of several requests, or several of one, must have in common."),
    "DeviceClaim.config": FieldDescription("Parameters for drivers, which they read when a pod's devices are prepared."),
    "DeviceRequest.name": FieldDescription("A DNS label by which containers, constraints and parameters name the request."),
    "DeviceRequest.exactly": FieldDescription("One way to meet the request."),
    "DeviceRequest.firstAvailable": FieldDescription(
        "Several ways to meet the request, the best first; the first that fits is taken.", "DRAPrioritizedList"
    ),
    "ExactDeviceRequest.deviceClassName": _CLASS,
    "ExactDeviceRequest.selectors": _SELECTORS,
    "ExactDeviceRequest.allocationMode": _MODE,
    "ExactDeviceRequest.count": _COUNT,
    "ExactDeviceRequest.adminAccess": FieldDescription(
        "Devices for watching them, though others use them. The namespace needs the label "
        'resource.kubernetes.io/admin-access: "true".',
        "DRAAdminAccess",
    ),
    "ExactDeviceRequest.tolerations": _TOLERATIONS,
    "ExactDeviceRequest.capacity": _CAPACITY,
    "DeviceSubRequest.name": FieldDescription("A DNS label; parameters and constraints name it after its request: gpu/large."),
    "DeviceSubRequest.deviceClassName": _CLASS,
    "DeviceSubRequest.selectors": _SELECTORS,
    "DeviceSubRequest.allocationMode": _MODE,
    "DeviceSubRequest.count": _COUNT,
    "DeviceSubRequest.tolerations": _TOLERATIONS,
    "DeviceSubRequest.capacity": _CAPACITY,
    "DeviceSelector.cel": FieldDescription("A CEL expression over one device."),
    "CELDeviceSelector.expression": FieldDescription(
        'True for devices that will do. It reads device.driver, device.attributes["DOMAIN"].NAME and '
        "device.capacity[\"DOMAIN\"].NAME; DOMAIN is the driver's name. Capacities compare with "
        "compareTo(quantity(…)), versions with compareTo(semver(…)). What a device lacks is an error: guard it with "
        '"NAME" in device.attributes["DOMAIN"].'
    ),
    "CapacityRequirements.requests": FieldDescription("Amounts by the name of the capacity."),
    "DeviceToleration.key": FieldDescription("The taint's key; every key if left out, with operator Exists."),
    "DeviceToleration.operator": FieldDescription("Exists: any value. Equal (the default): the value given."),
    "DeviceToleration.value": FieldDescription("The taint's value, with operator Equal."),
    "DeviceToleration.effect": FieldDescription("Only taints of this effect; of any if left out."),
    "DeviceToleration.tolerationSeconds": FieldDescription("With NoExecute: how long the pod may stay after the taint came."),
    "DeviceConstraint.requests": _FOR_REQUESTS,
    "DeviceConstraint.matchAttribute": FieldDescription(
        "All the devices have this attribute, with one value. In full, with its domain: gpu.nvidia.com/parentUUID."
    ),
    "DeviceConstraint.distinctAttribute": FieldDescription(
        "All the devices have this attribute, each with another value. In full, with its domain.",
        "DRAConsumableCapacity",
    ),
    "DeviceClaimConfiguration.requests": _FOR_REQUESTS,
    "DeviceClaimConfiguration.opaque": FieldDescription("Parameters that Kubernetes does not look into."),
    "OpaqueDeviceConfiguration.driver": FieldDescription("The name of the driver that they are for."),
    "OpaqueDeviceConfiguration.parameters": FieldDescription(
        "An object of the driver's own, with apiVersion and kind. What is wrong in it shows when a pod starts."
    ),
    "DeviceClass": FieldDescription("A kind of device that an administrator offers."),
    "DeviceClass.metadata": FieldDescription("Name and labels. A class is of no namespace."),
    "DeviceClass.spec": FieldDescription("Which devices are of the class, and their parameters."),
    "DeviceClassSpec.selectors": FieldDescription("Conditions on devices, all of which must hold. Test device.driver first."),
    "DeviceClassSpec.config": FieldDescription("Parameters for drivers that every use of the class gets; a claim's count more."),
    "DeviceClassSpec.extendedResourceName": FieldDescription(
        "A resource by which containers get these devices without a claim: limits {nvidia.com/gpu: 1}.",
        "DRAExtendedResource",
    ),
    "DeviceClassConfiguration.opaque": FieldDescription("Parameters that Kubernetes does not look into."),
    "ObjectMeta.name": FieldDescription("The object's name."),
    "ObjectMeta.generateName": FieldDescription("Beginning of a name that Kubernetes makes up."),
    "ObjectMeta.namespace": FieldDescription("The namespace; that of the context if left out."),
    "ObjectMeta.labels": FieldDescription("Labels, by which objects are selected."),
    "ObjectMeta.annotations": FieldDescription("Annotations: anything that programs and people note."),
    "PodSpec.resourceClaims": FieldDescription("Claims of the pod; its containers name them under resources.claims."),
    "PodResourceClaim.name": FieldDescription("The name by which containers of this pod name the claim."),
    "PodResourceClaim.resourceClaimName": FieldDescription("A claim in the pod's namespace, which others may use as well."),
    "PodResourceClaim.resourceClaimTemplateName": FieldDescription(
        "A template in the pod's namespace: the pod gets a claim of its own."
    ),
    "ResourceRequirements.claims": FieldDescription("Which of the pod's claims the container uses; without it no device."),
    "ContainerClaim.name": FieldDescription("The name of an entry of the pod's resourceClaims."),
    "ContainerClaim.request": FieldDescription("Only the devices of this request of the claim."),
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
