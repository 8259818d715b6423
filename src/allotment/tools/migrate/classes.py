"""DeviceClasses that serve device plugins' resource names, where the driver's chart brings none (KEP-5004).

NVIDIA's chart gives its class ``nvidia.com/gpu``. MIG profiles, AMD's partitions and Intel's names have no class: an
administrator makes one for each.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from allotment.tools.migrate.claim_plan import label
from allotment.tools.migrate.plugin_requests import Ask
from allotment.tools.migrate.request_mapping import AMD, INTEL, NVIDIA, kind_of
from allotment.tools.migrate.target import Target


class Serving(NamedTuple):
    """The class that serves a resource; ``expression`` is set where it is a new one."""

    name: str
    resource: str
    expression: str = ""


def serving(ask: Ask, target: Target) -> Serving:
    """The class for an ask: one that there is, or a new one."""
    there = target.serving(ask.resource)
    if there is not None:
        return Serving(there.metadata.name, ask.resource)
    installed = any(one.metadata.name == NVIDIA for one in target.classes)
    if not installed and ask.resource == "nvidia.com/gpu" and not ask.profile:
        return Serving(NVIDIA, ask.resource)  # as the driver's chart installs it
    driver = {"nvidia": NVIDIA, "amd": AMD, "intel": INTEL}[ask.vendor]
    what = label(ask.profile) if ask.profile else ask.kernel_driver or "whole"
    name = f"mig-{what}.nvidia.com" if ask.vendor == "nvidia" and ask.profile else f"{what}.{driver}"
    return Serving(name, ask.resource, " && ".join(_parts(ask, driver, target)))


def _parts(ask: Ask, driver: str, target: Target) -> list[str]:
    # The driver is tested first: on a device of another one the attribute is missing, and reading it an error.
    parts = [f'device.driver == "{driver}"']
    if ask.vendor == "nvidia":
        parts.append(f'device.attributes["{driver}"].type == "{"mig" if ask.profile else "gpu"}"')
    # Without the cluster's classes, so that AMD's class has its own condition and is not the chart's.
    own = kind_of(ask, replace(target, classes=()), ())
    parts += [f"({c.expression})" if " || " in c.expression else c.expression for c in own.conditions]
    return parts
