"""V313: a label of nodes, such as nvidia.com/gpu.memory, as a resource of a container."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Final

from allotment.explanation.extended_resources import plugin_resources
from allotment.model.node_label_resources import is_memory_label, is_node_label, node_label_meaning, requested_memory
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.objects.container_resources import ContainerResource, container_resources, removal_edits
from allotment.tools.check.rule import Fix, Rule, RuleMatch
from allotment.tools.views import PodView, at


def _find(bundle: Bundle) -> Iterator[RuleMatch]:
    provided = bundle.cached(_provided)
    for pod in bundle.pods:
        for found in container_resources(pod):
            if is_node_label(found.name) and found.name not in provided:
                edits = removal_edits(pod, found.container, found.name)
                yield RuleMatch(
                    pod.document,
                    found.path,
                    f'"{found.name}" is {node_label_meaning(found.name)}; a pod with this resource stays pending',
                    help=_help(pod, found),
                    fix=Fix(_fix_text(found.name), edits, safe=False),
                    at_key=True,
                )


def _provided(bundle: Bundle) -> frozenset[str]:
    """The resources that nodes of the given cluster or DeviceClasses provide."""
    classes = (value.spec.extended_resource_name for value in bundle.known_classes.values())
    return frozenset(filter(None, classes)).union(*plugin_resources(bundle.nodes).values())


def _fix_text(resource: str) -> str:
    lost = ": the GPU may have any memory then" if is_memory_label(resource) else ""
    return f"remove {resource}{lost}"


def _help(pod: PodView, found: ContainerResource) -> str:
    """The command that requests GPUs with the memory by a claim."""
    memory = requested_memory(found.name, at(pod.document.tree, found.path))
    if not memory:
        return "allot claim writes a claim for GPUs of a model or with an amount of memory"
    gpus, others = "1", [name for name in found.container.limits if name in ("nvidia.com/gpu", "amd.com/gpu")]
    if others and str(found.container.limits[others[0]]).isdecimal():
        gpus = str(found.container.limits[others[0]])
    vendor = ("--vendor", "amd") if found.name.startswith("amd.com/") else ()
    words = (
        "allot",
        "claim",
        "--gpus",
        gpus,
        "--memory",
        memory,
        *vendor,
        "--for",
        f"{pod.kind.lower()}/{pod.key.name}",
    )
    if len([container for container in pod.containers if not container.init]) != 1:
        words = (*words, "--container", found.container.name)
    command = shlex.join((*words, "-f", pod.document.file))
    return f"for GPUs with {memory}, remove {' and '.join((found.name, *others))}; then {command}"


_GOOD: Final = """\
apiVersion: v1
kind: Pod
metadata:
  name: server
spec:
  containers:
  - name: server
    image: registry.example/server:1
    resources:
      limits:
        nvidia.com/gpu: 1
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
    bad=f"{_GOOD}        nvidia.com/gpu.memory: 80Gi\n",
    good=_GOOD,
    find=_find,
    fixable="unsafe",
    see="https://github.com/NVIDIA/k8s-device-plugin/tree/main/docs/gpu-feature-discovery",
)
