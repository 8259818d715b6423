"""The edits that give a container devices by a claim: a new template, and the references to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from allotment.model.editing.edits import AddDocument, Edit, InsertItem, Remove, SetValue
from allotment.model.loading import Document
from allotment.model.loading.marks import Path
from allotment.tools.check.bundle import Bundle
from allotment.tools.views import ContainerView, PodView, at, mapping, text


class RequestedDevices(NamedTuple):
    """The devices that a claim requests: a number of devices of a class that meet a condition, a CEL expression."""

    class_name: str
    number: int
    condition: str


def memory_condition(driver: str, memory: str) -> str:
    """The condition that a device has at least this memory.

    >>> memory_condition("gpu.amd.com", "64G")
    'device.capacity["gpu.amd.com"].memory.compareTo(quantity("64G")) >= 0'
    """
    return f'device.capacity["{driver}"].memory.compareTo(quantity("{memory}")) >= 0'


def claim_instead_of(
    bundle: Bundle, pod: PodView, container: ContainerView, resources: tuple[str, ...], devices: RequestedDevices
) -> tuple[tuple[Document, Edit], ...]:
    """The edits that replace extended resources of a container by a claim; each pod gets devices of its own."""
    entry = _unused("gpu", {entry.name for entry in pod.entries})
    taken = {key.name for _, key in bundle.claims_by_key}
    template = _unused(f"{pod.key.name.strip('*-') or 'pod'}-gpu", taken)
    reference = {"name": entry, "resourceClaimTemplateName": template}
    edits: list[Edit] = [
        _appended(pod.document.tree, (*container.path, "resources", "claims"), {"name": entry}),
        *_removals(container, resources),
        _appended(pod.document.tree, (*pod.spec, "resourceClaims"), reference),
        AddDocument(_template(template, text(mapping(pod.document.tree.get("metadata")).get("namespace")), devices)),
    ]
    return tuple((pod.document, edit) for edit in edits)


def _unused(name: str, taken: set[str]) -> str:
    names = (f"{name}-{number}" if number > 1 else name for number in range(1, len(taken) + 2))
    return next(candidate for candidate in names if candidate not in taken)


def _appended(tree: Any, path: Path, item: dict[str, str]) -> Edit:
    written = at(tree, path)
    return InsertItem(path, len(written), item) if isinstance(written, list) and written else SetValue(path, [item])


def _removals(container: ContainerView, resources: tuple[str, ...]) -> Iterator[Remove]:
    for field, amounts in (("limits", container.limits), ("requests", container.requests)):
        path = (*container.path, "resources", field)
        removed = [name for name in resources if name in amounts]
        if removed and len(removed) == len(amounts):
            yield Remove(path)
        else:
            yield from (Remove((*path, name)) for name in removed)


def _template(name: str, namespace: str, devices: RequestedDevices) -> dict[str, Any]:
    exactly: dict[str, Any] = {"deviceClassName": devices.class_name}
    if devices.number > 1:
        exactly["count"] = devices.number
    exactly["selectors"] = [{"cel": {"expression": devices.condition}}]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, **({"namespace": namespace} if namespace else {})},
        "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}},
    }
