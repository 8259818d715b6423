"""What a container is to have, where no pod stands around it: a controller makes the pod (KServe's ``model``, NIM).

Such an object says only how much; what its controller makes of it has no place for a claim. A chart's values, which
are no object at all, look the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Final

from allotment.model.loading import Document
from allotment.model.loading.marks import Path
from allotment.tools.migrate.resource_names import vendor_of
from allotment.tools.views import ContainerView, PodView, at, is_dra, key_of, mapping, text
from allotment.tools.views.pod_specs import pod_specs

_NOT_ASKED: Final = ("status", "metadata")


def bare_views(document: Document, namespace: str) -> Iterator[PodView]:
    """Each place of a document where a vendor's resources are asked for outside of any pod."""
    if is_dra(document):
        return
    pods = {one.path for one in pod_specs(document)}
    for path in _places(document.tree, (), pods):
        resources = mapping(at(document.tree, (*path, "resources")))
        limits, requests = mapping(resources.get("limits")), mapping(resources.get("requests"))
        name = text(mapping(at(document.tree, path)).get("name")) or str(path[-1] if path else "")
        container = ContainerView(path, name, False, (), limits, requests)
        kind, part = document.kind or "Values", _spelled(path)
        yield PodView(document, kind, key_of(document, namespace), path, {}, 1, (), (container,), True, part)


def _places(tree: Any, path: Path, pods: Collection[Path]) -> Iterator[Path]:
    if path in pods:
        return
    if isinstance(tree, list):
        for number, item in enumerate(tree):
            yield from _places(item, (*path, number), pods)
    elif isinstance(tree, dict):
        resources = mapping(tree.get("resources"))
        if any(_asks(resources.get(field)) for field in ("limits", "requests")):
            yield path
        for key, value in tree.items():
            if len(path) > 0 or key not in _NOT_ASKED:
                yield from _places(value, (*path, key), pods)


def _asks(amounts: Any) -> bool:
    return any(vendor_of(str(name)) for name in mapping(amounts))


def _spelled(path: Path) -> str:
    """``predictor.model``, ``tasks[0]``: below ``spec``, which all objects have."""
    steps = path[1:] if path[:1] == ("spec",) else path
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps).lstrip(".")
