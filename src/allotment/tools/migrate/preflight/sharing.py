"""Checks the driver's feature gates for shared GPUs, which are off by default."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.phrases import counted
from allotment.tools.migrate.preflight.check import UNKNOWN, Check
from allotment.tools.migrate.preflight.commands import install
from allotment.tools.migrate.preflight.facts import Facts

NVIDIA = "gpu.nvidia.com"


def check_sharing(facts: Facts) -> Iterator[Check]:
    """Report the driver's gates and check for shared devices."""
    for gate in facts.driver_gates:
        users = [
            workload.subject
            for workload in facts.moving
            if any(own.name == gate for own in workload.decision.needs.driver_gates)
        ]
        whose = f" for {', '.join(users[:3])}" if users else ""
        text = (
            f"NVIDIA's driver requires this feature gate{whose}. It is off by default. Without it, claims are "
            "allocated, but their pods never start, because preparing the devices fails."
        )
        if gate == "MPSSupport" and "DynamicMIG" in facts.driver_gates:
            text += " The driver does not allow both MPSSupport and DynamicMIG."
        yield Check(
            state=UNKNOWN,
            title=f"driver gate {gate}",
            text=text,
            look="helm get values dra-driver-nvidia-gpu -n dra-driver-nvidia-gpu",
            commands=install(NVIDIA, facts.driver_gates, facts.shares),
        )
    if facts.shares:
        yield _shared(facts)


def _shared(facts: Facts) -> Check:
    title = "shared GPUs"
    published = [
        device
        for slice_ in facts.migration.target.slices
        for device in slice_.spec.devices or ()
        if device.allow_multiple_allocations
    ]
    if facts.cluster and published:
        return Check(
            state="ok", title=title, text=f"{counted(len(published), 'device')} can be allocated to several claims."
        )
    text = "The driver must publish GPUs that several claims can share (driver gate ConsumableShares)."
    look = "kubectl get resourceslices -o yaml | grep allowMultipleAllocations"
    commands = install(NVIDIA, facts.driver_gates, shares=True)
    return Check(state="to do" if facts.cluster else UNKNOWN, title=title, text=text, look=look, commands=commands)
