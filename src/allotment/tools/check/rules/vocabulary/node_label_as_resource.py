"""V313: a label of nodes, such as nvidia.com/gpu.memory, as a resource of a container."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from allotment.model.node_label_resources import is_memory_label, is_node_label, node_label_meaning, requested_memory
from allotment.phrases import counted
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.claims.claim_for_container import RequestedDevices, claim_instead_of, memory_condition
from allotment.tools.check.objects.container_resources import (
    ContainerResource,
    container_resources,
    provided_resources,
    removal_edits,
)
from allotment.tools.check.rule import Fix, Rule, RuleMatch
from allotment.tools.views import ContainerView, PodView, at

_HELP: Final = "allot claim writes a claim for GPUs of a model or with an amount of memory"


def _find(bundle: Bundle) -> Iterator[RuleMatch]:
    provided = bundle.cached(provided_resources)
    for pod in bundle.pods:
        for found in container_resources(pod):
            if is_node_label(found.name) and found.name not in provided:
                yield RuleMatch(
                    pod.document,
                    found.path,
                    f'"{found.name}" is {node_label_meaning(found.name)}; a pod with this resource stays pending',
                    help="" if _memory(pod, found) else _HELP,
                    fix=_fix(bundle, pod, found),
                    at_key=True,
                )


def _fix(bundle: Bundle, pod: PodView, found: ContainerResource) -> Fix | None:
    """The fix that requests the memory by a claim, or that removes another label; none if the memory is unclear."""
    if not is_memory_label(found.name):
        return Fix(f"remove {found.name}", removal_edits(pod, found.container, found.name), safe=False)
    memory = _memory(pod, found)
    if not memory:
        return None
    gpus, others = _gpus(found.container)
    driver = _driver(found.name)
    devices = RequestedDevices(driver, gpus, memory_condition(driver, memory))
    edits = claim_instead_of(bundle, pod, found.container, (found.name, *others), devices)
    return Fix(f"request {counted(gpus, 'GPU')} with at least {memory} by a claim", edits, safe=False)


def _memory(pod: PodView, found: ContainerResource) -> str:
    return requested_memory(found.name, at(pod.document.tree, found.path))


def _gpus(container: ContainerView) -> tuple[int, tuple[str, ...]]:
    """The number of GPUs that a container requests, and the resources that state it."""
    names = tuple(name for name in container.limits if name in ("nvidia.com/gpu", "amd.com/gpu"))
    number = str(container.limits[names[0]]) if names else ""
    return (int(number) if number.isdecimal() else 1), names


def _driver(resource: str) -> str:
    """The driver of the vendor's GPUs, which is also the name of its class."""
    return f"gpu.{resource.partition('/')[0]}"


_POD: Final = """\
apiVersion: v1
kind: Pod
metadata:
  name: server
spec:
  containers:
  - name: server
    image: registry.example/server:1
    resources:
"""

RULE = Rule(
    code="V313",
    name="node-label-as-resource",
    family="vocabulary",
    level="error",
    summary="a container requests a resource that is only a label of nodes",
    why=(
        "GPU feature discovery describes the cards of a node in labels, such as nvidia.com/gpu.memory and "
        "nvidia.com/gpu.product. No device plugin has resources of these names, so no node has room for the pod, and "
        "it stays pending. A container's resources are numbers of devices; memory, model and other properties are "
        "conditions of a claim."
    ),
    bad=f"{_POD}      limits:\n        nvidia.com/gpu: 1\n        nvidia.com/gpu.memory: 40Gi\n",
    good=examples.join_documents(
        f"{_POD}      claims:\n      - name: gpu\n"
        "  resourceClaims:\n  - name: gpu\n    resourceClaimTemplateName: server-gpu\n",
        examples.template("server-gpu", selector=memory_condition("gpu.nvidia.com", "40Gi")),
    ),
    find=_find,
    fixable="unsafe",
    see="https://github.com/NVIDIA/k8s-device-plugin/tree/main/docs/gpu-feature-discovery",
)
