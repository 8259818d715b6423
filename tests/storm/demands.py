"""Random demands of pending pods, near the limits where plans go wrong.

Memory just below and above what drivers report, MIG profiles, shares, alternatives, constraints, claims that several
pods name, zones, taints, affinity. Every pod names its claims, so the same trees can be planned for and scheduled.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

from allotment.fleet import accelerators
from allotment.fleet.catalog import InstanceType
from allotment.model.trees import Tree
from allotment.planning.limits import PlanLimits

NAMESPACE = "default"
GPU, AMD = "gpu.nvidia.com", "gpu.amd.com"


class Scenario(NamedTuple):
    """The pending pods, and the machines that can be provisioned."""

    pods: tuple[Tree, ...]
    claims: tuple[Tree, ...]
    catalog: tuple[InstanceType, ...]
    fleet: tuple[str, ...]
    """Existing machines, in the format of ``--fleet``."""
    objects: tuple[Tree, ...] = ()
    """All other objects: workloads, templates, namespaces, slices for all nodes."""
    node: Tree = {}
    """Changes to the existing machines: labels, taints, device taints, other resources."""
    limits: PlanLimits = PlanLimits()


def scenario_of(words: str, catalog: tuple[InstanceType, ...]) -> Scenario:
    """The scenario with this name, ``SEED/NUMBER``; a seed that begins with ``wide`` makes more diverse requests."""
    from tests.storm.wide_demands import wide_scenario

    make = wide_scenario if words.startswith("wide") else scenario
    return make(Random(words), catalog)


def scenario(random: Random, catalog: tuple[InstanceType, ...]) -> Scenario:
    """A random scenario."""
    sold = [instance for instance in catalog if not instance.unusable]
    some = tuple(random.sample(sold, random.randint(3, 14)))
    pods: list[Tree] = []
    claims: list[Tree] = []
    for number in range(random.randint(1, 4)):
        created = random.choice(GROUPS)(random, f"g{number}", some)
        pods += created[0]
        claims += created[1]
    for at, pod in enumerate(pods):
        pod["metadata"]["creationTimestamp"] = f"2026-01-01T00:{at // 60:02d}:{at % 60:02d}Z"
    fleet = random.choice([(), (), ("old=2xt4",), ("old=1xa100-40gb/static-mig=1g.5gb:2+2g.10gb:1",), ("old=l4",)])
    return Scenario(tuple(pods), tuple(claims), some, fleet)


# --- pods and claims ---------------------------------------------------------------------------------------------


def pod_of(random: Random, group: str, number: int, claims: tuple[str, ...], **spec: Any) -> Tree:
    amounts: Tree = {}
    if random.random() < 0.7:
        amounts = {"cpu": random.choice(["250m", "1", "3", "6"]), "memory": random.choice(["512Mi", "3Gi", "14Gi"])}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"{group}-{number}", "namespace": NAMESPACE, "labels": {"app": group}},
        "spec": {
            "schedulerName": "default-scheduler",
            "containers": [{"name": "c", "image": "i", "resources": {"requests": amounts}}],
            "resourceClaims": [{"name": f"c{n}", "resourceClaimName": name} for n, name in enumerate(claims)],
            **spec,
        },
        "status": {"phase": "Pending"},
    }


def claim_of(name: str, *requests: Tree, **devices: Any) -> Tree:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"devices": {"requests": list(requests), **devices}},
    }


def _of(count: int) -> Tree:
    return {"deviceClassName": GPU, "allocationMode": "ExactCount", "count": count}


def exactly(class_name: str, *selectors: str, name: str = "gpu", count: int = 1, **more: Any) -> Tree:
    expected: Tree = {"deviceClassName": class_name, "allocationMode": "ExactCount", "count": count, **more}
    if selectors:
        expected["selectors"] = [{"cel": {"expression": selector}} for selector in selectors]
    return {"name": name, "exactly": expected}


def _memory_of(random: Random, catalog: tuple[InstanceType, ...]) -> int:
    """MiB near the memory of some GPU, as its driver reports it or as its vendor advertises it."""
    sold = [instance.accelerator for instance in catalog if instance.accelerator is not None]
    memory = random.choice(sold).memory_mib if sold else random.choice([15360, 23034, 81559])
    marketing = -(-memory // 1024) * 1024
    return random.choice([memory - 1, memory, memory + 1, marketing, memory // 2, memory // 4])


def one_claim_each(
    random: Random, group: str, request: Callable[[], Tree], *, most: int = 5, devices: Tree | None = None, **spec: Any
) -> tuple[list[Tree], list[Tree]]:
    """Equal pods, each with a claim of its own."""
    device_request = request()
    pods, claims = [], []
    seed = random.random()
    for number in range(random.randint(1, most)):
        name = f"{group}-claim-{number}"
        claims.append(claim_of(name, device_request, **(devices or {})))
        pods.append(pod_of(Random(seed), group, number, (name,), **spec))
    return pods, claims


PodGroup = tuple[list[Tree], list[Tree]]


def _by_memory(random: Random, group: str, catalog: tuple[InstanceType, ...]) -> PodGroup:
    memory = _memory_of(random, catalog)
    return one_claim_each(
        random,
        group,
        lambda: exactly(
            GPU, f'device.capacity["{GPU}"].memory.compareTo(quantity("{memory}Mi")) >= 0',
            count=random.choice([1, 1, 1, 2, 4]),
        ),
    )  # fmt: skip


def _by_architecture(random: Random, group: str, catalog: tuple[InstanceType, ...]) -> PodGroup:
    known = sorted(
        {accelerator.architecture for accelerator in accelerators().values() if accelerator.vendor == "nvidia"}
    )
    return one_claim_each(
        random,
        group,
        lambda: exactly(
            GPU, f'device.attributes["{GPU}"].architecture == "{random.choice(known)}"', count=random.choice([1, 2])
        ),
    )


def _mig(random: Random, group: str, catalog: tuple[InstanceType, ...]) -> PodGroup:
    tables = [
        instance.accelerator.mig
        for instance in catalog
        if instance.accelerator is not None and instance.accelerator.mig is not None
    ]
    names = [profile.name for mig in tables for profile in mig.profiles] or ["1g.5gb"]
    return one_claim_each(
        random,
        group,
        lambda: exactly("mig.nvidia.com", f'device.attributes["{GPU}"].profile == "{random.choice(names)}"'),
        most=9,
    )


def _mig_by_memory(random: Random, group: str, catalog: tuple[InstanceType, ...]) -> PodGroup:
    gib = random.choice([4, 5, 9, 10, 19, 20, 39])
    return one_claim_each(
        random,
        group,
        lambda: exactly("mig.nvidia.com", f'device.capacity["{GPU}"].memory.compareTo(quantity("{gib}Gi")) >= 0'),
        most=6,
    )


def _shares(random: Random, group: str, catalog: tuple[InstanceType, ...]) -> PodGroup:
    capacity = {"requests": {"memory": f"{random.choice([2, 5, 7, 8, 11, 12, 16])}Gi"}}
    return one_claim_each(random, group, lambda: exactly(GPU, capacity=capacity), most=7)


def _alternatives(random: Random, group: str, catalog: tuple[InstanceType, ...]) -> PodGroup:
    first = f'device.attributes["{GPU}"].architecture == "Hopper"'
    request = {
        "name": "gpu",
        "firstAvailable": [
            {"name": "best", **_of(1), "selectors": [{"cel": {"expression": first}}]},
            {"name": "two", **_of(2)},
            {"name": "any", **_of(1)},
        ],
    }
    return one_claim_each(random, group, lambda: request, most=3)


def _matched(random: Random, group: str, catalog: tuple[InstanceType, ...]) -> PodGroup:
    name = random.choice([f"{GPU}/productName", f"{GPU}/architecture", "resource.kubernetes.io/pcieRoot"])
    count = random.choice([1, 2, 2, 4])
    constraint = {"constraints": [{"requests": ["gpu"], "matchAttribute": name}]}
    return one_claim_each(random, group, lambda: exactly(GPU, count=count), most=3, devices=constraint)


def _together(random: Random, group: str, catalog: tuple[InstanceType, ...]) -> PodGroup:
    """Several pods that name one claim."""
    memory = _memory_of(random, catalog)
    claim = claim_of(
        f"{group}-claim", exactly(GPU, f'device.capacity["{GPU}"].memory.isGreaterThan(quantity("{memory}Mi"))')
    )
    seed = random.random()
    pods = [pod_of(Random(seed), group, n, (f"{group}-claim",)) for n in range(random.randint(2, 4))]
    return pods, [claim]


def _all(random: Random, group: str, catalog: tuple[InstanceType, ...]) -> PodGroup:
    request = {"name": "gpu", "exactly": {"deviceClassName": GPU, "allocationMode": "All"}}
    return one_claim_each(random, group, lambda: request, most=2)


def _apart(random: Random, group: str, catalog: tuple[InstanceType, ...]) -> PodGroup:
    key = random.choice(["kubernetes.io/hostname", "kubernetes.io/hostname", "topology.kubernetes.io/zone"])
    term = {"labelSelector": {"matchLabels": {"app": group}}, "topologyKey": key}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    most = 3 if key.endswith("hostname") else 2
    return one_claim_each(random, group, lambda: exactly(GPU), most=most, affinity=affinity)


def _near(random: Random, group: str, catalog: tuple[InstanceType, ...]) -> PodGroup:
    term = {"labelSelector": {"matchLabels": {"app": group}}, "topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return one_claim_each(random, group, lambda: exactly(GPU), most=3, affinity=affinity)


def _spread(random: Random, group: str, catalog: tuple[InstanceType, ...]) -> PodGroup:
    constraint = {
        "maxSkew": 1,
        "topologyKey": random.choice(["kubernetes.io/hostname", "topology.kubernetes.io/zone"]),
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": group}},
    }
    return one_claim_each(random, group, lambda: exactly(GPU), most=4, topologySpreadConstraints=[constraint])


def _amd(random: Random, group: str, catalog: tuple[InstanceType, ...]) -> PodGroup:
    return one_claim_each(random, group, lambda: exactly(AMD, count=random.choice([1, 2])), most=3)


def _plain(random: Random, group: str, catalog: tuple[InstanceType, ...]) -> PodGroup:
    seed = random.random()
    pods = [pod_of(Random(seed), group, n, ()) for n in range(random.randint(1, 6))]
    return pods, []


def _pinned(random: Random, group: str, catalog: tuple[InstanceType, ...]) -> PodGroup:
    instance = random.choice(catalog)
    # the label is not part of the spec that is added
    labels = {"node.kubernetes.io/instance-type": instance.name.partition("+")[0]}
    return one_claim_each(random, group, lambda: exactly(GPU), most=3, nodeSelector=labels)


GROUPS: tuple[Callable[[Random, str, tuple[InstanceType, ...]], PodGroup], ...] = (
    _by_memory, _by_memory, _by_architecture, _mig, _mig, _mig_by_memory, _shares, _shares, _alternatives, _matched,
    _together, _all, _apart, _near, _spread, _amd, _plain, _pinned,
)  # fmt: skip
