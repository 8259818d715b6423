"""Descriptions of the fields of claims and classes, which editors show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class FieldDescription(NamedTuple):
    """The description of a field, and the feature gate without which Kubernetes drops the field."""

    text: str
    gate: str = ""


_SELECTORS: Final = FieldDescription(
    "Conditions on devices. All of them must be true, in addition to those of the class."
)
_CLASS: Final = FieldDescription("The DeviceClass of the devices. It must exist when a pod is scheduled.")
_MODE: Final = FieldDescription(
    "ExactCount (the default): the number in count. All: every matching device; all of them must be free."
)
_COUNT: Final = FieldDescription("The number of devices, by default 1. Not allowed with allocationMode All.")
_TOLERATIONS: Final = FieldDescription(
    "Tolerated taints of devices. Devices with other taints are not allocated.", "DRADeviceTaints"
)
_CAPACITY: Final = FieldDescription(
    "The requested capacity of a device that several claims can share.", "DRAConsumableCapacity"
)
_FOR_REQUESTS: Final = FieldDescription("Names of the requests to which this applies, by default all requests.")

#: Descriptions by type, and by type and field.
DESCRIPTIONS: Final[Mapping[str, FieldDescription]] = {
    "ResourceClaim": FieldDescription(
        "Devices for one pod or for several that share them. A claim's spec cannot be changed."
    ),
    "ResourceClaim.spec": FieldDescription("The requested devices."),
    "ResourceClaim.metadata": FieldDescription(
        "Name, namespace and labels. The pods that use the template must be in the same namespace."
    ),
    "ResourceClaim.status": FieldDescription("The allocated devices and the consumers. Set by Kubernetes."),
    "ResourceClaimTemplate": FieldDescription(
        "Creates a claim for every pod that uses it, and deletes the claim with the pod."
    ),
    "ResourceClaimTemplate.metadata": FieldDescription(
        "Name and namespace. The pods that use the claim must be in the same namespace."
    ),
    "ResourceClaimTemplate.spec": FieldDescription(
        "The metadata and spec of the claims. Changes apply only to new pods."
    ),
    "ResourceClaimTemplateSpec.metadata": FieldDescription("Labels and annotations of the claims."),
    "ResourceClaimTemplateSpec.spec": FieldDescription("The spec of the claims."),
    "ResourceClaimSpec.devices": FieldDescription(
        "Requests for devices, constraints between them, and parameters for drivers."
    ),
    "DeviceClaim.requests": FieldDescription(
        "Requests, each for devices of one class. All must be satisfied on one node."
    ),
    "DeviceClaim.constraints": FieldDescription("Constraints between the devices of one or several requests."),
    "DeviceClaim.config": FieldDescription("Parameters for drivers, used when the devices are prepared for a pod."),
    "DeviceRequest.name": FieldDescription(
        "A DNS label with which containers, constraints and parameters refer to the request."
    ),
    "DeviceRequest.exactly": FieldDescription("A request without alternatives."),
    "DeviceRequest.firstAvailable": FieldDescription(
        "Alternatives of the request in order of preference; the first one that fits is used.", "DRAPrioritizedList"
    ),
    "ExactDeviceRequest.deviceClassName": _CLASS,
    "ExactDeviceRequest.selectors": _SELECTORS,
    "ExactDeviceRequest.allocationMode": _MODE,
    "ExactDeviceRequest.count": _COUNT,
    "ExactDeviceRequest.adminAccess": FieldDescription(
        "Access to devices that may be in use by others, for example for monitoring. The namespace needs the label "
        'resource.kubernetes.io/admin-access: "true".',
        "DRAAdminAccess",
    ),
    "ExactDeviceRequest.tolerations": _TOLERATIONS,
    "ExactDeviceRequest.capacity": _CAPACITY,
    "DeviceSubRequest.name": FieldDescription(
        "A DNS label; parameters and constraints refer to it with the request name: gpu/large."
    ),
    "DeviceSubRequest.deviceClassName": _CLASS,
    "DeviceSubRequest.selectors": _SELECTORS,
    "DeviceSubRequest.allocationMode": _MODE,
    "DeviceSubRequest.count": _COUNT,
    "DeviceSubRequest.tolerations": _TOLERATIONS,
    "DeviceSubRequest.capacity": _CAPACITY,
    "DeviceSelector.cel": FieldDescription("A CEL expression over one device."),
    "CELDeviceSelector.expression": FieldDescription(
        'True for matching devices. It can read device.driver, device.attributes["DOMAIN"].NAME and '
        "device.capacity[\"DOMAIN\"].NAME; DOMAIN is the driver's name. Compare capacities with "
        "compareTo(quantity(…)), versions with compareTo(semver(…)). A missing attribute is an error: guard it with "
        '"NAME" in device.attributes["DOMAIN"].'
    ),
    "CapacityRequirements.requests": FieldDescription("Amounts by capacity name."),
    "DeviceToleration.key": FieldDescription("The key of the taint; if omitted with operator Exists, any key."),
    "DeviceToleration.operator": FieldDescription("Exists: any value. Equal (the default): this value."),
    "DeviceToleration.value": FieldDescription("The value of the taint, with operator Equal."),
    "DeviceToleration.effect": FieldDescription("The effect of the taint, by default any effect."),
    "DeviceToleration.tolerationSeconds": FieldDescription(
        "With NoExecute: seconds until the pod is evicted after the taint was added."
    ),
    "DeviceConstraint.requests": _FOR_REQUESTS,
    "DeviceConstraint.matchAttribute": FieldDescription(
        "All devices must have the same value of this attribute. The name includes the domain: "
        "gpu.nvidia.com/parentUUID."
    ),
    "DeviceConstraint.distinctAttribute": FieldDescription(
        "All devices must have different values of this attribute. The name includes the domain.",
        "DRAConsumableCapacity",
    ),
    "DeviceClaimConfiguration.requests": _FOR_REQUESTS,
    "DeviceClaimConfiguration.opaque": FieldDescription("Parameters that Kubernetes does not interpret."),
    "OpaqueDeviceConfiguration.driver": FieldDescription("The name of the driver that reads these parameters."),
    "OpaqueDeviceConfiguration.parameters": FieldDescription(
        "An object that the driver defines, with apiVersion and kind. Errors in it are reported when a pod starts."
    ),
    "DeviceClass": FieldDescription("A category of devices that an administrator provides."),
    "DeviceClass.metadata": FieldDescription("Name and labels. A class is cluster-scoped."),
    "DeviceClass.spec": FieldDescription("The devices of the class, and their parameters."),
    "DeviceClassSpec.selectors": FieldDescription(
        "Conditions on devices, all of which must be true. Test device.driver first."
    ),
    "DeviceClassSpec.config": FieldDescription(
        "Parameters for drivers in every request of the class; those of a claim take precedence."
    ),
    "DeviceClassSpec.extendedResourceName": FieldDescription(
        "A resource with which containers can request these devices without a claim: limits {nvidia.com/gpu: 1}.",
        "DRAExtendedResource",
    ),
    "DeviceClassConfiguration.opaque": FieldDescription("Parameters that Kubernetes does not interpret."),
    "ObjectMeta.name": FieldDescription("The object's name."),
    "ObjectMeta.generateName": FieldDescription("Prefix of a generated name."),
    "ObjectMeta.namespace": FieldDescription("The namespace, by default that of the context."),
    "ObjectMeta.labels": FieldDescription("Labels, used to select objects."),
    "ObjectMeta.annotations": FieldDescription("Annotations: arbitrary metadata."),
    "PodSpec.resourceClaims": FieldDescription(
        "Claims of the pod; its containers refer to them under resources.claims."
    ),
    "PodResourceClaim.name": FieldDescription("The name with which containers of this pod refer to the claim."),
    "PodResourceClaim.resourceClaimName": FieldDescription(
        "A claim in the pod's namespace, which other pods can use as well."
    ),
    "PodResourceClaim.resourceClaimTemplateName": FieldDescription(
        "A template in the pod's namespace, from which a claim is created for the pod."
    ),
    "ResourceRequirements.claims": FieldDescription(
        "The claims that the container uses; without them it gets no devices."
    ),
    "ContainerClaim.name": FieldDescription("The name of an entry in the pod's resourceClaims."),
    "ContainerClaim.request": FieldDescription("A request of the claim; the container gets only its devices."),
}  # fmt: skip

#: Fields that only the API server sets; they are neither described nor suggested.
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
