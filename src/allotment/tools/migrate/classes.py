"""DeviceClasses that serve device plugins' resource names, if the driver's chart installs none (KEP-5004).

NVIDIA's chart gives its class ``nvidia.com/gpu``. MIG profiles, AMD's partitions and Intel's names have no class: an
administrator creates one for each.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from allotment.tools.migrate.claim_plan import label
from allotment.tools.migrate.plugin_requests import PluginRequest
from allotment.tools.migrate.request_mapping import AMD, INTEL, NVIDIA, kind_of
from allotment.tools.migrate.target import Target


class ServingClass(NamedTuple):
    """The class that serves a resource; ``expression`` is set if the class is new."""

    name: str
    resource: str
    expression: str = ""


def serving_class(request: PluginRequest, target: Target) -> ServingClass:
    """The class for a request: an existing one, or a new one."""
    there = target.serving_class(request.resource)
    if there is not None:
        return ServingClass(there.metadata.name, request.resource)
    installed = any(device_class.metadata.name == NVIDIA for device_class in target.classes)
    if not installed and request.resource == "nvidia.com/gpu" and not request.profile:
        return ServingClass(NVIDIA, request.resource)  # as the driver's chart installs it
    driver = {"nvidia": NVIDIA, "amd": AMD, "intel": INTEL}[request.vendor]
    variant = label(request.profile) if request.profile else request.kernel_driver or "whole"
    name = f"mig-{variant}.nvidia.com" if request.vendor == "nvidia" and request.profile else f"{variant}.{driver}"
    return ServingClass(name, request.resource, " && ".join(_parts(request, driver, target)))


def _parts(request: PluginRequest, driver: str, target: Target) -> list[str]:
    # The driver is tested first: on a device of another one the attribute is missing, and reading it an error.
    parts = [f'device.driver == "{driver}"']
    if request.vendor == "nvidia":
        parts.append(f'device.attributes["{driver}"].type == "{"mig" if request.profile else "gpu"}"')
    # Without the cluster's classes, so that AMD's class has its own condition and is not the chart's.
    own = kind_of(request, replace(target, classes=()), ())
    parts += [f"({c.expression})" if " || " in c.expression else c.expression for c in own.conditions]
    return parts
