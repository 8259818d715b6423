"""The minimal manifest edits that move a workload from extended resources to a claim."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from allotment.model.editing.edits import Edit, InsertItem, Remove, SetValue
from allotment.model.loading.marks import Path
from allotment.tools.migrate.actions import Action
from allotment.tools.migrate.claim_plan import ContainerUse
from allotment.tools.migrate.plugin_requests import WorkloadRequests
from allotment.tools.migrate.tolerations import toleration
from allotment.tools.views import at, mapping


def entry_name(workload: WorkloadRequests) -> str:
    """The pod's name for the claim: ``gpu``, with a number if that name is taken."""
    taken = {entry.name for entry in workload.view.entries}
    number, name = 1, "gpu"
    while name in taken:
        number += 1
        name = f"gpu-{number}"
    return name


def edits_of(action: Action, refers: tuple[str, str]) -> list[Edit]:
    """The edits for one workload. ``refers``: field and name, ``resourceClaimTemplateName`` and ``web-gpu``."""
    workload, view = action.workload, action.workload.view
    name = entry_name(workload)
    edits: list[Edit] = []
    for use in action.uses:
        edits += _container(view.document.tree, use, name)
    edits += (Remove(path) for path in action.affinity.removed)
    tolerations = [toleration(key) for key in action.tolerations]
    if tolerations:
        edits += _added(view.tree, view.spec, "tolerations", tolerations)
    edits += _added(view.tree, view.spec, "resourceClaims", [{"name": name, refers[0]: refers[1]}])
    return edits


def _container(tree: dict[str, Any], use: ContainerUse, name: str) -> Iterator[Edit]:
    path: Path = (*use.path, "resources")
    resources = mapping(at(tree, path))
    for field in ("limits", "requests"):
        amounts = mapping(resources.get(field))
        gone = [resource for resource in use.resources if resource in amounts]
        if not gone:
            continue
        if len(gone) == len(amounts):
            yield Remove((*path, field))
        else:
            yield from (Remove((*path, field, resource)) for resource in gone)
    claim = {"name": name, **({"request": use.requests[0]} if use.requests else {})}
    written = resources.get("claims")
    if isinstance(written, list) and written:
        yield InsertItem((*path, "claims"), len(written), claim)
    else:
        yield SetValue((*path, "claims"), [claim])


def _added(tree: dict[str, Any], spec: Path, field: str, items: list[dict[str, str]]) -> Iterator[Edit]:
    written = tree.get(field)
    if isinstance(written, list) and written:
        yield from (InsertItem((*spec, field), len(written) + number, item) for number, item in enumerate(items))
    else:
        yield SetValue((*spec, field), items)
