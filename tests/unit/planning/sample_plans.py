"""Hand-written plans for tests of output and charts."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from allotment.explanation.report import ClaimAllocation, DeviceAllocation
from allotment.model.meta import ObjectKey
from allotment.planning.report import (
    GroupVerdicts,
    PlannedMachine,
    PodPlacement,
    ProvisioningPlan,
    Relaxation,
    TypeVerdict,
    UnservedPod,
)

GI = 1 << 30


def placement(
    pod: str, node: str, *devices: str, owner: str = "", share: str = "", cpu: int = 2000, claim: str = "",
    namespace: str = "default", memory: int = 8 * GI,
) -> PodPlacement:  # fmt: skip
    """The placement of a pod with devices of one claim; ``share``: of the memory of each."""
    amounts = {"memory": share} if share else {}
    allocated = tuple(
        DeviceAllocation(request="gpu", driver="gpu.nvidia.com", pool=node, device=device, share=amounts)
        for device in devices
    )
    claims = (ClaimAllocation(name=claim or f"{namespace}/{pod}-gpu", devices=allocated),) if allocated else ()
    key = ObjectKey(namespace, pod)
    return PodPlacement(pod=key, node=node, owner=owner, claims=claims, cpu_milli=cpu, memory=memory)


def machine(
    node: str, instance: str, form: str, usd: str, *placements: PodPlacement, zone: str = "us-east-1a",
    spot: bool = False, cpu: int = 8000, memory: int = 32 * GI, layout: tuple[tuple[str, ...], ...] = (),
) -> PlannedMachine:  # fmt: skip
    return PlannedMachine(
        node=node, instance=instance, form=form, zone=zone, capacity_type="spot" if spot else "on-demand",
        usd_per_hour=Decimal(usd), placements=placements, cpu_milli=cpu, memory=memory, layout=layout,
    )  # fmt: skip


def plan_of_machines(machines: Sequence[PlannedMachine], bound_share: str = "0.985", **more: Any) -> ProvisioningPlan:
    """A plan of these machines. ``bound_share``: the bound as a fraction of the total."""
    total = sum((each.usd_per_hour for each in machines), Decimal(0))
    return ProvisioningPlan(machines=tuple(machines), total=total, bound=total * Decimal(bound_share), **more)


def mixed_plan() -> ProvisioningPlan:
    """A plan with whole GPUs, MIG, shares, an existing node, an unserved pod, verdicts and a relaxation."""
    owner = "StatefulSet default/notebook"
    notebooks = [placement(f"notebook-{n}", "a2-1", f"gpu-0-mig-1g5gb-19-{n}", owner=owner, cpu=1000) for n in range(5)]
    first, second = (f"gpu-{n}" for n in range(3)), (f"gpu-{n}" for n in range(3, 6))
    machines = [
        machine(
            "a2-1", "gcp/a2-highgpu-1g", "a100-40gb/static-mig=1g.5gb:7", "3.673385", *notebooks,
            zone="us-central1-a", layout=(("1g.5gb",) * 7,),
        ),
        machine(
            "p4d-1", "aws/p4d.24xlarge", "8xa100-40gb", "21.957642",
            placement("train-0", "p4d-1", *first, owner="Job default/train"),
            placement("train-1", "p4d-1", *second, owner="Job default/train"), cpu=95000,
        ),
        machine(
            "g5-1", "aws/g5.xlarge", "a10g/shared", "1.006",
            placement("api-0", "g5-1", "gpu-0", owner="Deployment default/api", share="9Gi"),
            placement("api-1", "g5-1", "gpu-0", owner="Deployment default/api", share="9Gi"),
        ),
    ]  # fmt: skip
    train = GroupVerdicts(
        pods=(ObjectKey("default", "train-0"), ObjectKey("default", "train-1")),
        owner="Job default/train",
        verdicts=(
            TypeVerdict(instance="aws/p4d.24xlarge", code="", text="", per_hour=Decimal("21.957642"), holds=2),
            TypeVerdict(instance="aws/p4de.24xlarge", code="", text="", per_hour=Decimal("27.44705"), holds=2),
            TypeVerdict(
                instance="aws/g5.12xlarge", code="too-few-devices", text="4 GPUs; 6 requested",
                per_hour=Decimal("5.672"),
            ),
            TypeVerdict(
                instance="gcp/g2-standard-48", code="selector-matches-nothing",
                text="L4 is Ada Lovelace; Ampere requested", per_hour=Decimal("4.0"), borderline=True,
            ),
            TypeVerdict(instance="aws/p5e.48xlarge", code="price-unknown", text="its price is unknown"),
        ),
    )  # fmt: skip
    huge = UnservedPod(
        pod=ObjectKey("default", "huge-0"), owner="Job default/huge", code="never", text="no type has 16 H200",
        nearest=("aws/p5en.48xlarge",),
    )  # fmt: skip
    total = sum((each.usd_per_hour for each in machines), Decimal(0))
    relaxation = Relaxation(
        what="Turing also allowed", object="ResourceClaimTemplate default/train", path="spec.spec.devices.requests[0]",
        total=total - 12, saves=Decimal(12),
    )  # fmt: skip
    return plan_of_machines(
        machines, existing=(placement("old-1", "node-7", "gpu-3"),), unserved=(huge,), choices=(train,),
        relaxations=(relaxation,), notes=("prices as of 2026-07-20",),
    )  # fmt: skip


def plan_with_groups(machines: int, groups: int) -> ProvisioningPlan:
    """A plan with this number of machines in this number of groups."""
    result = []
    for number in range(machines):
        kind, node = number % groups, f"n-{number}"
        placements = [
            placement(f"w{kind}-{number}-{gpu}", node, f"gpu-{gpu}", owner=f"Job default/w{kind}", cpu=500)
            for gpu in range(1 + kind % 8)
        ]
        result.append(machine(node, f"aws/type-{kind}", "8xh100", str(1 + kind), *placements))
    return plan_of_machines(result, "0.95")
