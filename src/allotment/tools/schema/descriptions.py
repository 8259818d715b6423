"""Descriptions of the fields of claims and classes, which editors show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class FieldDescription(NamedTuple):
    """The description of a field, and the feature gate without which Kubernetes drops the field."""

    text: str
    gate: str = ""


_SELECTORS: Final = FieldDescription("Conditions that a device must meet, in addition to the conditions of the class.")
_CLASS: Final = FieldDescription("The DeviceClass of the requested devices. It must exist when a pod is scheduled.")
_MODE: Final = FieldDescription(
    "ExactCount (the default): as many devices as count specifies. All: every matching device; all must be free."
)
_COUNT: Final = FieldDescription("The number of devices, by default 1. Not allowed with allocationMode All.")
_TOLERATIONS: Final = FieldDescription(
    "Tolerations for taints of devices. A device with a taint that is not tolerated is not allocated.",
    "DRADeviceTaints",
)
_CAPACITY: Final = FieldDescription(
    "The capacity requested from a device that several claims can share.", "DRAConsumableCapacity"
)
_DERIVED: Final = FieldDescription(
    "Attributes that are computed for each device, for the constraints that name them.", "DRADerivedAttributes"
)
_FOR_REQUESTS: Final = FieldDescription("Names of the requests to which this applies, by default all requests.")

#: Descriptions by type, and by type and field.
DESCRIPTIONS: Final[Mapping[str, FieldDescription]] = {
    "ResourceClaim": FieldDescription(
        "A request for devices, for one pod or for several pods that share them. The spec is immutable."
    ),
    "ResourceClaim.spec": FieldDescription("The requested devices."),
    "ResourceClaim.metadata": FieldDescription(
        "Name, namespace and labels. The pods that use the claim must be in the same namespace."
    ),
    "ResourceClaim.status": FieldDescription("The allocated devices and the pods that use them. Set by Kubernetes."),
    "ResourceClaimTemplate": FieldDescription(
        "A template from which a claim is created for each pod that references it. The claim is deleted with the pod."
    ),
    "ResourceClaimTemplate.metadata": FieldDescription(
        "Name and namespace. The pods that use the template must be in the same namespace."
    ),
    "ResourceClaimTemplate.spec": FieldDescription(
        "The metadata and spec of the claims. Immutable."
    ),
    "ResourceClaimTemplateSpec.metadata": FieldDescription("Labels and annotations of the claims."),
    "ResourceClaimTemplateSpec.spec": FieldDescription("The spec of the claims."),
    "ResourceClaimSpec.devices": FieldDescription(
        "Requests for devices, constraints between them, and parameters for drivers."
    ),
    "DeviceClaim.requests": FieldDescription(
        "Requests, each for devices of one class. All requests must be satisfied on the same node."
    ),
    "DeviceClaim.constraints": FieldDescription("Constraints between the devices of one or more requests."),
    "DeviceClaim.config": FieldDescription("Parameters for drivers, used when the devices are prepared for a pod."),
    "DeviceRequest.name": FieldDescription(
        "A DNS label by which containers, constraints and parameters refer to the request."
    ),
    "DeviceRequest.exactly": FieldDescription("A request without alternatives."),
    "DeviceRequest.firstAvailable": FieldDescription(
        "Alternatives for the request in order of preference; the first one that fits is used.", "DRAPrioritizedList"
    ),
    "ExactDeviceRequest.deviceClassName": _CLASS,
    "ExactDeviceRequest.selectors": _SELECTORS,
    "ExactDeviceRequest.allocationMode": _MODE,
    "ExactDeviceRequest.count": _COUNT,
    "ExactDeviceRequest.adminAccess": FieldDescription(
        "Access to devices that may be in use by others, for example for monitoring. The namespace must have the label "
        'resource.kubernetes.io/admin-access: "true".',
        "DRAAdminAccess",
    ),
    "ExactDeviceRequest.tolerations": _TOLERATIONS,
    "ExactDeviceRequest.capacity": _CAPACITY,
    "DeviceSubRequest.name": FieldDescription(
        "A DNS label; parameters and constraints refer to the alternative together with its request, as in gpu/large."
    ),
    "DeviceSubRequest.deviceClassName": _CLASS,
    "DeviceSubRequest.selectors": _SELECTORS,
    "DeviceSubRequest.allocationMode": _MODE,
    "DeviceSubRequest.count": _COUNT,
    "DeviceSubRequest.tolerations": _TOLERATIONS,
    "DeviceSubRequest.capacity": _CAPACITY,
    "ExactDeviceRequest.derivedAttributes": _DERIVED,
    "DeviceSubRequest.derivedAttributes": _DERIVED,
    "DeviceDerivedAttribute.name": FieldDescription(
        "The name of the attribute, including a domain: example.com/rack. A constraint must refer to it."
    ),
    "DeviceDerivedAttribute.expression": FieldDescription(
        "A CEL expression for the value: a boolean, an integer, a string or a version, or a list of one of these. It "
        "can read what a selector can read."
    ),
    "DeviceSelector.cel": FieldDescription("A CEL expression that is evaluated for each device."),
    "CELDeviceSelector.expression": FieldDescription(
        'Evaluates to true for matching devices. It can read device.driver, device.attributes["DOMAIN"].NAME and '
        "device.capacity[\"DOMAIN\"].NAME; DOMAIN is the driver's name. Compare capacities with "
        "compareTo(quantity(…)), and versions with compareTo(semver(…)). A missing attribute is an error: guard it "
        'with "NAME" in device.attributes["DOMAIN"].'
    ),
    "CapacityRequirements.requests": FieldDescription("Requested amounts by capacity name."),
    "DeviceToleration.key": FieldDescription("The key of the taint; if omitted with operator Exists, any key."),
    "DeviceToleration.operator": FieldDescription("Exists: any value. Equal (the default): this value."),
    "DeviceToleration.value": FieldDescription("The value of the taint, with operator Equal."),
    "DeviceToleration.effect": FieldDescription("The effect of the taint, by default any effect."),
    "DeviceToleration.tolerationSeconds": FieldDescription(
        "With effect NoExecute: the number of seconds from when the taint is added until the pod is evicted."
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
        "An object that the driver defines, with apiVersion and kind. Errors in it are reported only when a pod starts."
    ),
    "DeviceClass": FieldDescription("A category of devices that an administrator or a driver's chart defines."),
    "DeviceClass.metadata": FieldDescription("Name and labels. A class is cluster-scoped."),
    "DeviceClass.spec": FieldDescription("The devices of the class, and their parameters."),
    "DeviceClassSpec.selectors": FieldDescription(
        "Conditions on devices, all of which must be true. Test device.driver first."
    ),
    "DeviceClassSpec.config": FieldDescription(
        "Parameters for drivers, for every request for the class; those in a claim take precedence."
    ),
    "DeviceClassSpec.extendedResourceName": FieldDescription(
        "An extended resource by which containers request these devices without a claim, as in "
        "limits: {nvidia.com/gpu: 1}.",
        "DRAExtendedResource",
    ),
    "DeviceClassConfiguration.opaque": FieldDescription("Parameters that Kubernetes does not interpret."),
    "ObjectMeta.name": FieldDescription("The object's name."),
    "ObjectMeta.generateName": FieldDescription("Prefix of a generated name."),
    "ObjectMeta.namespace": FieldDescription("The namespace, by default that of the kubectl context."),
    "ObjectMeta.labels": FieldDescription("Labels, used to select objects."),
    "ObjectMeta.annotations": FieldDescription("Annotations: arbitrary metadata."),
    "PodSpec.resourceClaims": FieldDescription(
        "Claims of the pod; its containers refer to them under resources.claims."
    ),
    "PodResourceClaim.name": FieldDescription("The name by which containers of this pod refer to the claim."),
    "PodResourceClaim.resourceClaimName": FieldDescription(
        "A claim in the pod's namespace, which other pods can use as well."
    ),
    "PodResourceClaim.resourceClaimTemplateName": FieldDescription(
        "A template in the pod's namespace, from which a claim is created for the pod."
    ),
    "ResourceRequirements.claims": FieldDescription(
        "The claims that the container uses; without an entry, the container gets no devices from claims."
    ),
    "ContainerClaim.name": FieldDescription("The name of an entry in the pod's resourceClaims."),
    "ContainerClaim.request": FieldDescription(
        "A request of the claim; the container gets only the devices of this request."
    ),
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
