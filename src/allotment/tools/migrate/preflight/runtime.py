"""Checks the nodes' container runtime, which must support CDI."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.tools.migrate.preflight.check import UNKNOWN, Check
from allotment.tools.migrate.preflight.facts import Facts


def check_runtime(facts: Facts) -> Iterator[Check]:
    """Report the requirements on the container runtime and the kernel driver."""
    if not facts.moving:
        return
    text = (
        "containerd 2.0 and CRI-O support CDI by default; containerd 1.7 requires enable_cdi = true in its "
        "configuration. Without CDI support, containers stay in CreateContainerError (unresolvable CDI devices)."
    )
    if "gpu.nvidia.com" in facts.drivers:
        text += " NVIDIA's DRA driver requires kernel driver 580 or later."
    yield Check(
        state=UNKNOWN, title="CDI in the container runtime", text=text, look="kubectl get nodes -o wide", routine=True
    )
