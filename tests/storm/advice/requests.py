"""The requests of pending pods, in the ways in which users write them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Final, NamedTuple

from allotment.model.trees import Tree
from tests.storm.advice import machines
from tests.storm.advice.machines import GPU, MachineKind, attribute, devices
from tests.storm.advice.worlds import CLAIM, ENTRY, NAMESPACE, POD, RESOURCE

EXTENDED_RESOURCE: Final = "nvidia.com/gpu"
PCIE_ROOT: Final = "resource.kubernetes.io/pcieRoot"
#: Memory that GPUs of a size publish at least, in percent of GiB: 24 GB cards have 22.5 GiB.
_PUBLISHED_PERCENT: Final = 93


class Style(NamedTuple):
    """A way to request devices. ``forms``: the kinds of machines for which it is possible; ``devices``: the fields of
    the claim, without a class; None for a pod that requests an extended resource."""

    forms: frozenset[str]
    devices: Callable[[Random, MachineKind], Tree] | None


def _exactly(random: Random, kind: MachineKind, *conditions: str, most: int = 2, **more: Any) -> Tree:
    """A request of one to ``most`` devices that satisfy the conditions."""
    request: Tree = {"deviceClassName": kind.device_class, **more}
    if conditions:
        request["selectors"] = [{"cel": {"expression": " && ".join(conditions)}}]
    count = random.randint(1, min(most, len(devices(kind))))
    if "allocationMode" not in more and (count > 1 or random.random() < 0.5):
        request |= {"allocationMode": "ExactCount", "count": count}
    return {"requests": [{"name": "gpus", "exactly": request}]}


def _sample(random: Random, kind: MachineKind) -> Tree:
    """A device of the kind."""
    found: Tree = random.choice(devices(kind))
    return found


def _attribute(random: Random, kind: MachineKind, name: str) -> str:
    return f"device.attributes[{_quote(random, kind.driver)}].{name}"


def _quote(random: Random, text: str) -> str:
    return f"'{text}'" if random.random() < 0.4 else f'"{text}"'


def _product_condition(random: Random, kind: MachineKind) -> str:
    return f"{_attribute(random, kind, 'productName')} == {_quote(random, machines.product(kind))}"


def _memory_condition(random: Random, kind: MachineKind) -> str:
    """At least the memory that some device has, rounded down to whole Gi."""
    gib = machines.memory(_sample(random, kind)) // machines.GIB
    return f'device.capacity["{kind.driver}"].memory.compareTo(quantity("{gib}Gi")) >= 0'


def _product(random: Random, kind: MachineKind) -> Tree:
    return _exactly(random, kind, _product_condition(random, kind))


def _memory(random: Random, kind: MachineKind) -> Tree:
    return _exactly(random, kind, _memory_condition(random, kind), most=1 if kind.form == "dynamic" else 2)


def _both(random: Random, kind: MachineKind) -> Tree:
    conditions = [_product_condition(random, kind), _memory_condition(random, kind)]
    random.shuffle(conditions)
    return _exactly(random, kind, *conditions)


def _architecture(random: Random, kind: MachineKind) -> Tree:
    value = attribute(_sample(random, kind), "architecture")
    return _exactly(random, kind, f"{_attribute(random, kind, 'architecture')} == {_quote(random, value)}")


def _capability(random: Random, kind: MachineKind) -> Tree:
    value = attribute(_sample(random, kind), "cudaComputeCapability")
    condition = f'{_attribute(random, kind, "cudaComputeCapability")}.compareTo(semver("{value}")) >= 0'
    return _exactly(random, kind, condition)


def _numa(random: Random, kind: MachineKind) -> Tree:
    value = attribute(_sample(random, kind), "resource.kubernetes.io/numaNode")
    conditions = [_product_condition(random, kind)]
    conditions.append(f'device.attributes["resource.kubernetes.io"].numaNode == {value}')
    return _exactly(random, kind, *conditions, most=1)


def _profile(random: Random, kind: MachineKind) -> Tree:
    value = attribute(_sample(random, kind), "profile")
    condition = f"{_attribute(random, kind, 'profile')} == {_quote(random, value)}"
    return _exactly(random, kind, condition, most=1)


def _amount(random: Random, kind: MachineKind) -> Tree:
    gib = machines.memory(_sample(random, kind)) // machines.GIB
    amount = {"requests": {"memory": f"{random.randint(4, gib - 2)}Gi"}}
    conditions = [_product_condition(random, kind)] if random.random() < 0.4 else []
    return _exactly(random, kind, *conditions, most=1, capacity=amount)


def _any(random: Random, kind: MachineKind) -> Tree:
    return _exactly(random, kind)


def _all(random: Random, kind: MachineKind) -> Tree:
    return _exactly(random, kind, _product_condition(random, kind), allocationMode="All")


def _matched(random: Random, kind: MachineKind) -> Tree:
    request = _exactly(random, kind, _product_condition(random, kind), allocationMode="ExactCount", count=2)
    return {**request, "constraints": [{"requests": ["gpus"], "matchAttribute": PCIE_ROOT}]}


def _admin(random: Random, kind: MachineKind) -> Tree:
    return _exactly(random, kind, _product_condition(random, kind), adminAccess=True)


_GPUS: Final = frozenset({"whole"})
_WITH_PRODUCT: Final = frozenset({"whole", "amd", "mig"})
STYLES: Final[Mapping[str, Style]] = {
    "product": Style(_WITH_PRODUCT, _product),
    "memory": Style(frozenset({"whole", "amd", "mig", "dynamic"}), _memory),
    "both": Style(_WITH_PRODUCT, _both),
    "architecture": Style(_GPUS, _architecture),
    "capability": Style(_GPUS, _capability),
    "numa": Style(_GPUS, _numa),
    "profile": Style(frozenset({"mig", "dynamic"}), _profile),
    "amount": Style(frozenset({"share"}), _amount),
    "any": Style(frozenset({"whole", "mig", "amd"}), _any),
    "all": Style(_GPUS, _all),
    "matched": Style(_GPUS, _matched),
    "admin": Style(_GPUS, _admin),
    "extended": Style(_GPUS, None),
}


def pending_objects(random: Random, style: str, kind: MachineKind) -> tuple[Tree, ...]:
    """The pending pod, and its claim or template if it does not request an extended resource."""
    container: Tree = {"name": "main", "image": "registry.k8s.io/pause:3.10"}
    spec: Tree = {"containers": [container]}
    if random.random() < 0.25:
        spec["nodeSelector"] = {machines.POOL_LABEL: kind.pool}
    elif kind.form != "amd" and random.random() < 0.2:
        spec["nodeSelector"] = {machines.PRODUCT_LABEL: machines.product(kind).replace(" ", "-")}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": POD, "namespace": NAMESPACE}, "spec": spec}
    make = STYLES[style].devices
    if make is None:
        spec.setdefault("nodeSelector", {machines.POOL_LABEL: kind.pool})
        count = random.randint(1, min(2, len(devices(kind))))
        container["resources"] = {"limits": {EXTENDED_RESOURCE: str(count)}}
        return (pod,)
    container["resources"] = {"claims": [{"name": ENTRY}]}
    claim_spec = {"devices": make(random, kind)}
    if random.random() < 0.5:
        spec["resourceClaims"] = [{"name": ENTRY, "resourceClaimTemplateName": CLAIM}]
        return (pod, template(CLAIM, claim_spec))
    spec["resourceClaims"] = [{"name": ENTRY, "resourceClaimName": CLAIM}]
    return (pod, claim(CLAIM, claim_spec))


def claim(name: str, spec: Tree, namespace: str = NAMESPACE) -> Tree:
    return {
        "apiVersion": RESOURCE, "kind": "ResourceClaim", "metadata": {"name": name, "namespace": namespace},
        "spec": copy.deepcopy(spec),
    }  # fmt: skip


def template(name: str, spec: Tree, namespace: str = NAMESPACE) -> Tree:
    return {
        "apiVersion": RESOURCE, "kind": "ResourceClaimTemplate", "metadata": {"name": name, "namespace": namespace},
        "spec": {"spec": copy.deepcopy(spec)},
    }  # fmt: skip


def gpu_request(kind: MachineKind) -> Tree:
    """The spec of a claim for a device of a kind, for pods that hold devices."""
    if kind.form == "share":
        exactly: Tree = {"deviceClassName": GPU, "capacity": {"requests": {"memory": "4Gi"}}}
    else:
        exactly = {"deviceClassName": kind.device_class}
    return {
        "devices": {"requests": [{"name": "gpus", "exactly": {**exactly, "allocationMode": "ExactCount", "count": 1}}]}
    }
