"""The DeviceClasses of the NVIDIA, AMD and example drivers, as their charts install them."""

from __future__ import annotations

from allotment.model.meta import ObjectMeta
from allotment.model.resource import CELDeviceSelector, DeviceClass, DeviceClassSpec, DeviceSelector


def _device_class(name: str, expression: str, extended_resource: str | None = None) -> DeviceClass:
    return DeviceClass(
        metadata=ObjectMeta(name=name),
        spec=DeviceClassSpec(
            selectors=(DeviceSelector(cel=CELDeviceSelector(expression=expression)),),
            extended_resource_name=extended_resource,
        ),
    )


def _of_type(driver: str, kind: str) -> str:
    # Test the driver first: devices of other drivers do not have the attribute, and reading it is an error.
    return f"device.driver == '{driver}' && device.attributes['{driver}'].type == '{kind}'"


_GPU = "gpu.nvidia.com"
_AMD = "gpu.amd.com"
_DOMAIN = "compute-domain.nvidia.com"

#: vendor -> classes. AMD's class has no type, so it selects both whole GPUs and partitions.
CLASSES: dict[str, tuple[DeviceClass, ...]] = {
    "nvidia": (
        _device_class("gpu.nvidia.com", _of_type(_GPU, "gpu"), "nvidia.com/gpu"),
        _device_class("mig.nvidia.com", _of_type(_GPU, "mig")),
        _device_class("vfio.gpu.nvidia.com", _of_type(_GPU, "vfio")),
        _device_class("compute-domain-daemon.nvidia.com", _of_type(_DOMAIN, "daemon")),
        _device_class(
            "compute-domain-default-channel.nvidia.com",
            f"{_of_type(_DOMAIN, 'channel')} && device.attributes['{_DOMAIN}'].id == 0",
        ),
    ),
    "amd": (_device_class("gpu.amd.com", f"device.driver == '{_AMD}'"),),
    # The GPU class has the extended resource that the example driver's demos request.
    "example": (
        _device_class("gpu.example.com", "device.driver == 'gpu.example.com'", "example.com/gpu"),
        _device_class("net.example.com", "device.driver == 'net.example.com'"),
        _device_class("cpu.example.com", "device.driver == 'cpu.example.com'"),
    ),
}

#: If AMD's driver partitions GPUs on demand, a request for a whole GPU must not get a partition.
AMD_WHOLE_GPU = _device_class(
    "gpu.amd.com-spx",
    f"device.driver == '{_AMD}' && 'computePartition' in device.attributes['{_AMD}'] && "
    f"device.attributes['{_AMD}'].computePartition == 'spx'",
    "amd.com/gpu",
)
