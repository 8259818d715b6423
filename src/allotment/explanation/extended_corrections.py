"""Changes of the extended resources in a pod's containers: a corrected name, or another number of devices.

Users cannot change the claim that the scheduler creates, so the container changes. Only a resource of a single
container does: with several, it is not known which one to change.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from allotment.engine.diagnosis.published_names import similar_qualified_names
from allotment.engine.refusal import SuggestedChange
from allotment.explanation.extended_requests import extended_resources
from allotment.model.core import Container, Pod
from allotment.model.node_label_resources import is_memory_label, is_node_label
from allotment.model.quantity import Quantity
from allotment.model.trees import Tree

#: The path of a number of devices in the claim that the scheduler creates.
_COUNT: Final = re.compile(r"spec\.devices\.requests\[(\d+)\]\.exactly\.count")


def corrected_names(
    pod: Pod, where: tuple[str, str], resource: str, provided: Iterable[str]
) -> tuple[SuggestedChange, ...]:
    """Changes of an unknown resource to those with similar names that are ``provided``, best first; a label of nodes is
    removed, unless it states an amount of memory.

    ``where``: the object that contains the pod, and the path there.
    """
    only = _only_container(pod, resource)
    if only is None or is_memory_label(resource):  # without the label, the memory would be lost: a claim requires it
        return ()
    path, container = only
    if is_node_label(resource):
        becomes = _amounts(container, resource)
        text = f"remove {resource}"
        return (
            SuggestedChange(text=text, object=where[0], path=f"{where[1]}{path}", becomes=becomes, remedy="leave-out"),
        )
    return tuple(
        SuggestedChange(
            text=f"use {name}",
            object=where[0],
            path=f"{where[1]}{path}",
            becomes=_amounts(container, resource, name),
            remedy="name",
        )
        for name in similar_qualified_names(resource, provided)
    )


def with_count(change: SuggestedChange, pod: Pod, where: tuple[str, str]) -> SuggestedChange | None:
    """A change of the created claim as a change of the container; None if no field of the pod corresponds to it."""
    resources = extended_resources(pod)
    if not isinstance(change.becomes, int) or _COUNT.fullmatch(change.path) is None or len(resources) != 1:
        return None
    only = _only_container(pod, resources[0])
    if only is None:
        return None
    path, container = only
    becomes = _amounts(container, resources[0], resources[0], change.becomes)
    return replace(change, object=where[0], path=f"{where[1]}{path}", becomes=becomes)


def _only_container(pod: Pod, resource: str) -> tuple[str, Container] | None:
    """The container with a resource, and the path of its resources; None if several containers have it."""
    fields = (("initContainers", pod.spec.init_containers), ("containers", pod.spec.containers))
    found = [
        (f"spec.{field}[{number}].resources", container)
        for field, containers in fields
        for number, container in enumerate(containers)
        if resource in container.resources.limits or resource in container.resources.requests
    ]
    return found[0] if len(found) == 1 else None


def _amounts(container: Container, resource: str, name: str = "", count: int | None = None) -> Tree:
    """The limits and requests that contain a resource, with another name or number for it; without ``name``, without
    it."""
    given: Mapping[str, Mapping[str, Quantity]] = {
        "limits": container.resources.limits, "requests": container.resources.requests,
    }  # fmt: skip
    return {
        field: {
            (name if key == resource else key): (count or amount.value()) if key == resource else str(amount)
            for key, amount in amounts.items()
            if name or key != resource
        }
        for field, amounts in given.items()
        if resource in amounts
    }
