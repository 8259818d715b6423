"""What follows from the facts of an instance type: how ``--fleet`` calls its hardware, if a plan may use it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from allotment.fleet.catalog.instance_type import InstanceType
from allotment.fleet.hardware import MOST_GPUS

#: Types whose topology somebody measured, and the server that was made of it.
_SERVERS: Final[Mapping[str, str]] = {"aws/p5.48xlarge": "hgx-h100-aws-p5"}


def judged(instance: InstanceType) -> InstanceType:
    """The same type with what follows from its facts."""
    model = instance.accelerator
    return replace(
        instance,
        hardware=_hardware(instance),
        unusable=_unusable(instance),
        memory_bound=model is not None and model.memory_bound,
    )


def _hardware(instance: InstanceType) -> str:
    model = instance.accelerator
    if model is None or not 0 < instance.gpus <= MOST_GPUS or instance.gpu_fraction:
        return ""
    name = model.aliases[0] if model.aliases else model.id
    return _SERVERS.get(instance.key) or (name if instance.gpus == 1 else f"{instance.gpus}x{name}")


def _unusable(instance: InstanceType) -> str:
    """Why a plan must not use it; empty if it may."""
    fraction = instance.gpu_fraction
    if fraction == "unknown":
        return "whether its GPU is a whole one is not known"
    if fraction:
        part = "a part" if fraction == "fractional" else fraction
        return f"it has {part} of a GPU (vGPU), whose driver publishes no such device"
    if instance.gpus > MOST_GPUS:
        return f"it has {instance.gpus} GPUs, and a node at most {MOST_GPUS}"
    if instance.gpus and instance.accelerator is None:
        return "what its GPU is, is not known"
    if instance.room is None:
        unknown = [word for word, value in (("vCPUs", instance.vcpu), ("memory", instance.memory_gib)) if value is None]
        if not unknown:
            return "what it has for pods is not known"
        return f"its {' and '.join(unknown)} {'are' if unknown[0] == 'vCPUs' else 'is'} not known"
    return "" if instance.prices else "its price is not known"
