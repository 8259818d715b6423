"""More diverse random demands: other pod requirements, machines that are in use already, and limits.

Several requests in one claim, devices of two drivers, counted shares, AMD's partitions, devices that must differ, admin
access, taints of nodes and devices, priorities, gangs, ports, extended resources, daemons, workloads whose pods do not
exist yet, claims that are allocated. All of these come in addition to ``demands``.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from random import Random
from typing import Any, Final

from allotment.fleet.catalog import InstanceType
from allotment.model.trees import Tree
from allotment.planning.limits import PlanLimits
from tests.storm.demands import (
    AMD,
    GPU,
    GROUPS,
    NAMESPACE,
    PodGroup,
    Scenario,
    claim_of,
    exactly,
    one_claim_each,
    pod_of,
)

_NET: Final = "net.example.com"
#: Existing machines.
_FLEETS: Final = (
    (), (), (), ("old=2xt4",), ("old=4xl4",), ("old=2xl4/consumable-shares=4",), ("old=2xt4/consumable-shares=memory",),
    ("old=1xa100-40gb/static-mig=1g.5gb:2+2g.10gb:1",), ("old=2xa100-40gb/dynamic-mig",), ("old=l4", "older=t4"),
    ("old=8xmi300x/dpx",),
)  # fmt: skip
_TAINT: Final = {"key": "example.com/ours", "value": "yes", "effect": "NoSchedule"}
_TOLERATION: Final = {"key": "example.com/ours", "operator": "Exists"}


def wide_scenario(random: Random, catalog: tuple[InstanceType, ...]) -> Scenario:
    """A random scenario."""
    sold = [instance for instance in catalog if not instance.unusable]
    some = tuple(random.sample(sold, random.randint(3, 14)))
    pods: list[Tree] = []
    claims: list[Tree] = []
    objects: list[Tree] = []
    for number in range(random.randint(1, 5)):
        name = f"g{number}"
        if random.random() < 0.2:
            objects += _workload(random, name, some)
            continue
        created = random.choice((*GROUPS, *_MORE, *_MORE))(random, name, some)
        _vary(random, name, created[0])
        pods += created[0]
        claims += created[1]
    for at, pod in enumerate(random.sample(pods, len(pods)) if random.random() < 0.3 else pods):
        pod["metadata"]["creationTimestamp"] = f"2026-01-01T00:{at // 60:02d}:{at % 60:02d}Z"
    fleet = random.choice(_FLEETS)
    if random.random() < 0.3:
        objects.append(_daemons(random))
    if any(_NET in str(claim) for claim in claims):
        objects += _network(random)
    if fleet and random.random() < 0.4:
        _running_pod(random, fleet, pods, claims)
    return Scenario(
        tuple(pods), tuple(claims), some, fleet, tuple(objects), _node(random), _limits(random, some)
    )  # fmt: skip


# --- existing objects -------------------------------------------------------------------------------------------------


def _node(random: Random) -> Tree:
    found: Tree = {"labels": {}, "taints": [], "devices": [], "amounts": {}}
    if random.random() < 0.3:
        found["taints"].append(_TAINT)
    if random.random() < 0.3:
        found["devices"].append({**_TAINT, "effect": random.choice(["NoSchedule", "NoExecute"])})
    if random.random() < 0.5:
        found["labels"]["topology.kubernetes.io/zone"] = random.choice(["us-east-1a", "us-central1-a"])
    if random.random() < 0.2:
        found["amounts"]["nvidia.com/gpu"] = "2"
    return found


def _network(random: Random) -> list[Tree]:
    """A few network devices that are available on every node."""
    devices = [{"name": f"net-{n}"} for n in range(random.randint(1, 6))]
    pool = {"name": "net", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": _NET, "allNodes": True, "pool": pool, "devices": devices}
    selector = {"cel": {"expression": f"device.driver == '{_NET}'"}}
    group = "resource.k8s.io/v1"
    return [
        {"apiVersion": group, "kind": "ResourceSlice", "metadata": {"name": "net"}, "spec": spec},
        {"apiVersion": group, "kind": "DeviceClass", "metadata": {"name": _NET}, "spec": {"selectors": [selector]}},
    ]


def _daemons(random: Random) -> Tree:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": random.choice(["100m", "1"])}}}
    spec = {"containers": [container], "tolerations": [{"operator": "Exists"}]}
    labels = {"app": "daemon"}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "daemon", "namespace": NAMESPACE},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec}},
    }


def _running_pod(random: Random, fleet: tuple[str, ...], pods: list[Tree], claims: list[Tree]) -> None:
    """Add a pod that runs on an existing machine with the first of its GPUs; other pods may wait for its claim."""
    name, _, form = fleet[0].partition("=")
    if "/" in form:
        return
    node = {"key": "metadata.name", "operator": "In", "values": [name]}
    claim = claim_of("settled", exactly(GPU))
    device = {"request": "gpu", "driver": GPU, "pool": name, "device": "gpu-0"}
    uid = "settled"
    claim["metadata"]["uid"] = "claim-settled"
    claim["status"] = {
        "allocation": {
            "devices": {"results": [device]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [node]}]},
        },
        "reservedFor": [{"resource": "pods", "name": uid, "uid": uid}],
    }
    claims.append(claim)
    pod = pod_of(random, "settled", 0, ("settled",), nodeName=name)
    pod["metadata"] |= {"name": uid, "uid": uid, "creationTimestamp": "2025-01-01T00:00:00Z"}
    pod["status"] = {"phase": "Running"}
    if random.random() < 0.3:
        term = {"labelSelector": {"matchLabels": {"app": "g0"}}, "topologyKey": "kubernetes.io/hostname"}
        rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        pod["spec"]["affinity"] = {"podAntiAffinity": rule}
    pods.append(pod)
    for number in range(random.randint(0, 2)):
        follower = pod_of(random, "follower", number, ("settled",))
        follower["metadata"]["creationTimestamp"] = "2026-01-01T00:00:30Z"
        pods.append(follower)


def _limits(random: Random, catalog: tuple[InstanceType, ...]) -> PlanLimits:
    if random.random() < 0.6:
        return PlanLimits()
    return random.choice(
        [
            PlanLimits(budget=Decimal(random.choice(["0.6", "1.5", "4", "12", "40"]))),
            PlanLimits(max_machines=random.randint(1, 4)),
            PlanLimits(
                max_by_pattern=((random.choice(catalog).key, random.randint(0, 2)), ("aws/*", random.randint(0, 3)))
            ),
            PlanLimits(types=(f"{random.choice(catalog).provider}/*",)),
            PlanLimits(excluded_types=(random.choice(catalog).key,), capacity="spot"),
            PlanLimits(capacity="cheapest"),
            PlanLimits(capacity="cheapest", spot_share=Decimal(random.choice(["0", "0.3", "0.5"]))),
            PlanLimits(zones=("us-east-1a", "us-central1-b", "us-east-1")),
            PlanLimits(modes=("dynamic-mig", "consumable-shares=2")),
        ]
    )


# --- pods --------------------------------------------------------------------------------------------------------


def _vary(random: Random, group: str, pods: list[Tree]) -> None:
    """Other requirements of pods."""
    chance = random.random
    if chance() < 0.15:
        for pod in pods:
            pod["spec"]["priority"] = 1000
    elif chance() < 0.1:
        for pod in pods:
            pod["spec"]["priority"] = random.choice([0, 500])
    if chance() < 0.3:
        for pod in pods:
            pod["spec"]["tolerations"] = [_TOLERATION]
    if chance() < 0.12:
        for pod in pods:
            pod["metadata"]["labels"]["allotment.dev/gang"] = group
    if chance() < 0.1:
        port = {"containerPort": 80, "hostPort": random.choice([80, 8080])}
        for pod in pods:
            pod["spec"]["containers"][0]["ports"] = [port]
    if chance() < 0.1:
        required = {"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64", "amd64"]}
        terms = {"nodeSelectorTerms": [{"matchExpressions": [required]}]}
        for pod in pods:
            affinity = pod["spec"].setdefault("affinity", {})
            affinity["nodeAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": terms}


def _two_requests(random: Random, group: str, catalog: tuple[InstanceType, ...]) -> PodGroup:
    created = one_claim_each(random, group, lambda: exactly(GPU), most=4)
    second = exactly(
        random.choice([GPU, GPU, "mig.nvidia.com"]), name="more", count=random.choice([1, 2]),
        **({"tolerations": [_TOLERATION]} if random.random() < 0.3 else {}),
    )  # fmt: skip
    for claim in created[1]:
        claim["spec"]["devices"]["requests"].append(second)
        if random.random() < 0.3:
            same = {"requests": ["gpu", "more"], "matchAttribute": f"{GPU}/productName"}
            claim["spec"]["devices"]["constraints"] = [same]
    return created


def _two_drivers(random: Random, group: str, catalog: tuple[InstanceType, ...]) -> PodGroup:
    created = one_claim_each(random, group, lambda: exactly(GPU), most=4)
    net = exactly(_NET, name="net", count=random.choice([1, 1, 2]))
    for claim in created[1]:
        claim["spec"]["devices"]["requests"].insert(random.randint(0, 1), net)
    return created


def _two_claims(random: Random, group: str, catalog: tuple[InstanceType, ...]) -> PodGroup:
    pods, claims = one_claim_each(random, group, lambda: exactly(GPU), most=3)
    for number, pod in enumerate(pods):
        request = random.choice([exactly(GPU), exactly("mig.nvidia.com")])
        claims.append(claim_of(f"{group}-second-{number}", request))
        pod["spec"]["resourceClaims"].append({"name": "second", "resourceClaimName": f"{group}-second-{number}"})
    return pods, claims


def _counted(random: Random, group: str, catalog: tuple[InstanceType, ...]) -> PodGroup:
    """A share of any GPU."""
    capacity = {"requests": {"memory": random.choice(["1Gi", "3Gi", "6Gi"])}}
    return one_claim_each(
        random, group, lambda: exactly(GPU, capacity=capacity, count=random.choice([1, 1, 2])), most=8
    )


def _partitions(random: Random, group: str, catalog: tuple[InstanceType, ...]) -> PodGroup:
    kind = random.choice(
        [f'device.attributes["{AMD}"].type == "amdgpu-partition"',
         f'device.capacity["{AMD}"].memory.compareTo(quantity("{random.choice([20, 24, 48, 96, 191])}Gi")) >= 0',
         f'device.attributes["{AMD}"].partitionProfile.startsWith("{random.choice(["spx", "dpx", "cpx"])}")']
    )  # fmt: skip
    return one_claim_each(random, group, lambda: exactly(AMD, kind, count=random.choice([1, 1, 3])), most=9)


def _different(random: Random, group: str, catalog: tuple[InstanceType, ...]) -> PodGroup:
    name = random.choice([f"{GPU}/parentUUID", "resource.kubernetes.io/numaNode", f"{GPU}/uuid"])
    of = "mig.nvidia.com" if name.endswith("parentUUID") else GPU
    constraint = {"constraints": [{"requests": ["gpu"], "distinctAttribute": name}]}
    return one_claim_each(random, group, lambda: exactly(of, count=2), most=3, devices=constraint)


def _admin(random: Random, group: str, catalog: tuple[InstanceType, ...]) -> PodGroup:
    return one_claim_each(random, group, lambda: exactly(GPU, adminAccess=True), most=3)


def _tolerant(random: Random, group: str, catalog: tuple[InstanceType, ...]) -> PodGroup:
    return one_claim_each(
        random, group, lambda: exactly(GPU, tolerations=[_TOLERATION]), most=4, tolerations=[_TOLERATION]
    )  # fmt: skip


def _extended(random: Random, group: str, catalog: tuple[InstanceType, ...]) -> PodGroup:
    """GPUs requested as an extended resource, as with a device plugin."""
    amount = random.choice(["1", "1", "2", "8"])
    seed = random.random()
    pods = []
    for number in range(random.randint(1, 4)):
        pod = pod_of(Random(seed), group, number, ())
        amounts = pod["spec"]["containers"][0]["resources"]["requests"]
        amounts["nvidia.com/gpu"] = amount
        pod["spec"]["containers"][0]["resources"]["limits"] = {"nvidia.com/gpu": amount}
        pods.append(pod)
    return pods, []


def _selective(random: Random, group: str, catalog: tuple[InstanceType, ...]) -> PodGroup:
    """Topology spread or affinity that selects the pods of other groups."""
    term: Tree = {
        "labelSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["g0", "g1", group]}]},
        "topologyKey": random.choice(["kubernetes.io/hostname", "topology.kubernetes.io/zone"]),
    }
    kind = random.choice(["podAffinity", "podAntiAffinity"])
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return one_claim_each(random, group, lambda: exactly(GPU), most=4, affinity={kind: rule})


_MORE: Final[tuple[Callable[[Random, str, tuple[InstanceType, ...]], PodGroup], ...]] = (
    _two_requests, _two_drivers, _two_claims, _counted, _partitions, _different, _admin, _tolerant, _extended,
    _selective,
)  # fmt: skip


def _workload(random: Random, group: str, catalog: tuple[InstanceType, ...]) -> list[Tree]:
    """A workload and its claim template, of which no pod and claim exists yet."""
    pods, claims = random.choice((*GROUPS[:8], _two_requests, _counted))(random, group, catalog)
    pod, labels = pods[0], {"app": group}
    spec: Tree = {**pod["spec"], "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": group}]}
    template: Tree = {"metadata": {"labels": labels}, "spec": spec}
    count = random.randint(1, 6)
    created: dict[str, Any] = {
        "Deployment": {"replicas": count, "selector": {"matchLabels": labels}},
        "StatefulSet": {"replicas": count, "selector": {"matchLabels": labels}, "serviceName": group},
        "Job": {"parallelism": count, "completions": count, "completionMode": "Indexed"},
    }
    kind = random.choice(list(created))
    if kind == "Job":
        spec["restartPolicy"] = "Never"
    return [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": group, "namespace": NAMESPACE},
            "spec": {"spec": claims[0]["spec"]},
        },
        {
            "apiVersion": "batch/v1" if kind == "Job" else "apps/v1",
            "kind": kind,
            "metadata": {"name": group, "namespace": NAMESPACE},
            "spec": {**created[kind], "template": template},
        },
    ]


#: Those that concern one node at a time.
OF_ONE_NODE: Final = (_two_requests, _two_claims, _counted, _partitions, _extended)
