"""The DeviceClasses that the example driver's chart installs, one for each of its profiles."""

from __future__ import annotations

from typing import Final

from allotment.model.meta import ObjectMeta
from allotment.model.resource import CELDeviceSelector, DeviceClass, DeviceClassSpec, DeviceSelector


def _of(driver: str, extended_resource: str | None = None) -> DeviceClass:
    selector = DeviceSelector(cel=CELDeviceSelector(expression=f"device.driver == '{driver}'"))
    spec = DeviceClassSpec(selectors=(selector,), extended_resource_name=extended_resource)
    return DeviceClass(metadata=ObjectMeta(name=driver), spec=spec)


#: With the extended resource that the chart's examples ask for.
CLASSES: Final = (_of("gpu.example.com", "example.com/gpu"), _of("net.example.com"), _of("cpu.example.com"))
