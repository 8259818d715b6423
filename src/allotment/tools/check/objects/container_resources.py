"""The amounts in the limits and requests of a pod's containers, as written, and the edits that remove one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from allotment.explanation.extended_resources import plugin_resources
from allotment.model.editing.edits import Edit, Remove
from allotment.model.loading import Document
from allotment.model.loading.marks import Path
from allotment.tools.check.bundle import Bundle
from allotment.tools.views import ContainerView, PodView


class ContainerResource(NamedTuple):
    """A resource of a container, and the path of its amount."""

    path: Path
    name: str
    container: ContainerView


def container_resources(pod: PodView) -> Iterator[ContainerResource]:
    """Yield each requested resource of each container: its limit, or else its request. An amount of 0 is none."""
    for container in pod.containers:
        for field, amounts in (("limits", container.limits), ("requests", container.requests)):
            for resource, amount in amounts.items():
                if field == "requests" and resource in container.limits:
                    continue
                if str(amount) != "0":
                    yield ContainerResource((*container.path, "resources", field, resource), resource, container)


def provided_resources(bundle: Bundle) -> frozenset[str]:
    """The extended resources that nodes of the given cluster or DeviceClasses provide."""
    classes = (value.spec.extended_resource_name for value in bundle.known_classes.values())
    return frozenset(filter(None, classes)).union(*plugin_resources(bundle.nodes).values())


def removal_edits(pod: PodView, container: ContainerView, resource: str) -> tuple[tuple[Document, Edit], ...]:
    """The edits that remove a resource from a container, with the mapping if it has no other one."""
    resources = (*container.path, "resources")
    edits: list[tuple[Document, Edit]] = []
    for field, amounts in (("limits", container.limits), ("requests", container.requests)):
        if resource in amounts:
            path = (*resources, field, resource) if len(amounts) > 1 else (*resources, field)
            edits.append((pod.document, Remove(path)))
    return tuple(edits)
