"""The workload that gets a claim: found in manifests, and changed by edits of its text or by a patch for kubectl."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from allotment.fleet.errors import suggestion
from allotment.model.editing.edits import Edit, InsertItem, SetValue
from allotment.model.loading import Document
from allotment.model.loading.marks import Path
from allotment.phrases import listed
from allotment.tools.claims.objects import Plan
from allotment.tools.claims.request import ClaimError
from allotment.tools.views import ContainerView, PodView, at, items, mapping, pod_views, text

#: kubectl's short names of kinds.
_SHORT: Final = {
    "deploy": "deployment", "ds": "daemonset", "rs": "replicaset", "sts": "statefulset", "po": "pod", "cj": "cronjob",
    "rc": "replicationcontroller",
}  # fmt: skip
#: Domains of extended resources that stand for whole or partitioned GPUs.
_GPU_RESOURCES: Final = ("nvidia.com/", "amd.com/gpu", "gpu.intel.com/")


class Workload(NamedTuple):
    """A pod or workload, and the containers that get the devices. ``name``: as users write it, ``Deployment llm``."""

    view: PodView
    containers: tuple[ContainerView, ...]

    @property
    def name(self) -> str:
        """Kind and name."""
        return f"{self.view.kind} {self.view.key.name}"

    @property
    def namespace(self) -> str:
        """The namespace as written; empty if it is not."""
        return text(mapping(self.view.document.tree.get("metadata")).get("namespace"))


def find_workload(documents: Iterable[Document], subject: str, containers: Sequence[str], namespace: str) -> Workload:
    """Return the workload that ``deploy/llm`` or ``llm`` names. Raises ClaimError."""
    views = [view for document in documents for view in pod_views(document, namespace) if view.key.name]
    prefix, slash, rest = subject.partition("/")
    kind, name = (_SHORT.get(prefix.lower(), prefix.lower()), rest) if slash else ("", subject)
    found = [view for view in views if view.key.name == name and (not kind or _is_kind(view, kind))]
    known = [f"{view.kind.lower()}/{view.key.name}" for view in views]
    if not found:
        hint = suggestion(subject, known) or (f"the files contain {listed(dict.fromkeys(known))}" if known else "")
        raise ClaimError(f"{subject} not found in the manifests", hint or "add its manifest", argument="workload")
    distinct = dict.fromkeys((view.kind, view.key) for view in found)
    if len(distinct) > 1:
        hint = f"expected one of {listed(known)}"
        raise ClaimError(f"{subject} names {len(distinct)} objects", hint, argument="workload")
    with_names = [view for view in found if set(containers) <= {container.name for container in view.containers}]
    if containers and not with_names:
        names = listed(dict.fromkeys(container.name for view in found for container in view.containers))
        raise ClaimError(f"{subject} has containers {names}, not {listed(containers)}", argument="containers")
    if len(with_names) > 1:
        parts = listed(view.part for view in with_names if view.part)
        raise ClaimError(
            f"{subject} has several pod specs ({parts})", "choose one by the name of its container", argument="workload"
        )
    return Workload(with_names[0], _containers(with_names[0], containers, subject))


def _is_kind(view: PodView, kind: str) -> bool:
    return view.kind.lower() in (kind, kind.removesuffix("s"))


def _containers(view: PodView, names: Sequence[str], subject: str) -> tuple[ContainerView, ...]:
    if names:
        return tuple(container for container in view.containers if container.name in names)
    main = [container for container in view.containers if not container.init]
    if len(main) != 1:
        listing = listed(container.name for container in main)
        found = f"it has {listing}" if main else "it has none"
        hint = "name the containers that get the devices"
        raise ClaimError(f"{subject}: expected one container, but {found}", hint, argument="workload")
    return (main[0],)


def require_no_other_devices(workload: Workload) -> None:
    """Raise ClaimError if a chosen container requests GPUs from a device plugin, which would come in addition."""
    for container in workload.containers:
        for resource in (*container.limits, *container.requests):
            if resource.startswith(_GPU_RESOURCES):
                raise ClaimError(
                    f"container {container.name} of {workload.name} requests {resource} already",
                    "allot migrate moves such requests to claims",
                )


def require_no_claim(workload: Workload) -> None:
    """Raise ClaimError if a chosen container names a claim: another one would give it more devices."""
    entries = {entry.name: entry for entry in workload.view.entries}
    for container in workload.containers:
        entry = next((entries[use.name] for use in container.uses if use.name in entries), None)
        if entry is not None:
            raise ClaimError(
                f"container {container.name} of {workload.name} has a claim already: {entry.name}, of {entry.kind} "
                f"{entry.refers_to}",
                f"to change its devices, edit {entry.refers_to}; to add the devices of another claim, choose its name",
            )


def entry_name(workload: Workload) -> str:
    """Return a name for the pod's entry of the claim: ``gpu``, with a number if it is taken."""
    taken = {entry.name for entry in workload.view.entries}
    return next(
        name for number in range(1, len(taken) + 2) if (name := f"gpu-{number}" if number > 1 else "gpu") not in taken
    )


def _reference(plan: Plan, workload: Workload) -> dict[str, str]:
    assert plan.claim is not None
    field = "resourceClaimTemplateName" if plan.claim.kind == "ResourceClaimTemplate" else "resourceClaimName"
    return {"name": entry_name(workload), field: plan.claim.name}


def edits_of(plan: Plan, workload: Workload) -> list[Edit]:
    """Return the edits of the workload's document that give its containers the devices."""
    view = workload.view
    edits: list[Edit] = []
    for container in workload.containers:
        edits += _container_edits(view.document.tree, container, plan, workload)
    if plan.claim is not None:
        edits += _appended(view.document.tree, (*view.spec, "resourceClaims"), _reference(plan, workload))
    return edits


def _container_edits(tree: Any, container: ContainerView, plan: Plan, workload: Workload) -> Iterator[Edit]:
    resources: Path = (*container.path, "resources")
    if plan.limits is not None:
        name, number = plan.limits
        yield _set(tree, (*resources, "limits", name), number)
    if plan.claim is not None:
        yield from _appended(tree, (*resources, "claims"), {"name": entry_name(workload)})


def _appended(tree: Any, path: Path, item: dict[str, str]) -> Iterator[Edit]:
    written = at(tree, path)
    yield InsertItem(path, len(written), item) if isinstance(written, list) and written else _set(tree, path, [item])


def _set(tree: Any, path: Path, value: Any) -> SetValue:
    """Set a value, with the parents that are missing."""
    while len(path) > 1 and at(tree, path[:-1]) is None:
        path, value = path[:-1], {path[-1]: value}
    return SetValue(path, value)


def patch_of(plan: Plan, workload: Workload) -> tuple[str, Any]:
    """Return a patch for kubectl with its type: ``strategic``, or ``json`` for kinds that have no other."""
    view = workload.view
    if view.custom:
        return "json", _json_patch(edits_of(plan, workload))
    containers: dict[str, list[dict[str, Any]]] = {}
    for container in workload.containers:
        resources: dict[str, Any] = {}
        if plan.limits is not None:
            resources["limits"] = {plan.limits[0]: str(plan.limits[1])}
        if plan.claim is not None:
            # The list is replaced as a whole: it has no key by which a strategic patch merges it.
            written = at(view.document.tree, (*container.path, "resources", "claims"))
            resources["claims"] = [*(use for _, use in items(written)), {"name": entry_name(workload)}]
        field = "initContainers" if container.init else "containers"
        containers.setdefault(field, []).append({"name": container.name, "resources": resources})
    spec: Any = dict(containers)
    if plan.claim is not None:
        spec = {"resourceClaims": [_reference(plan, workload)], **spec}
    for step in reversed(view.spec):
        spec = {step: spec}
    return "strategic", spec


def _json_patch(edits: Iterable[Edit]) -> list[dict[str, Any]]:
    """The edits as RFC 6902 operations."""
    operations = []
    for edit in edits:
        if isinstance(edit, InsertItem):
            operations.append({"op": "add", "path": f"{_pointer(edit.path)}/-", "value": edit.value})
        elif isinstance(edit, SetValue):
            operations.append({"op": "add", "path": _pointer(edit.path), "value": edit.value})
    return operations


def _pointer(path: Path) -> str:
    return "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in path)


def usage_lines(plan: Plan) -> Iterator[str]:
    """Yield the lines that a pod needs to use the claim, for a comment."""
    if plan.limits is not None:
        yield from (
            "containers:",
            "- name: …",
            "  resources:",
            "    limits:",
            f"      {plan.limits[0]}: {plan.limits[1]}",
        )
    if plan.claim is not None:
        field = "resourceClaimTemplateName" if plan.claim.kind == "ResourceClaimTemplate" else "resourceClaimName"
        yield from ("resourceClaims:", "- name: gpu", f"  {field}: {plan.claim.name}")
        yield from ("containers:", "- name: …", "  resources:", "    claims:", "    - name: gpu")
