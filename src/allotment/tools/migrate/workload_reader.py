"""Reads workloads that request device plugin resources, with their containers and node requirements.

Extended resources are requested in limits; a request must equal its limit and cannot be set alone. Node labels specify
the rest: the GPU model (feature discovery, clouds), its partitions and its sharing.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from msgspec.structs import replace

from allotment.model.loading import Document
from allotment.model.loading.marks import Path
from allotment.model.meta import ObjectKey
from allotment.tools.migrate.plugin_config import (
    profile_of_nodes,
    sharing_from_configs,
    sharing_from_selectors,
    sharing_of_nodes,
    single_profile,
)
from allotment.tools.migrate.plugin_requests import (
    GENERATED,
    ContainerRequests,
    PluginRequest,
    Role,
    Sharing,
    Strategy,
    Term,
    WorkloadRequests,
)
from allotment.tools.migrate.resource_names import SHARED, parse_requests, vendor_of
from allotment.tools.migrate.target import Target
from allotment.tools.views import ContainerView, PodView, at, is_dra, items, key_of, mapping, pod_views, strings, text
from allotment.tools.views.pod_specs import pod_specs

_SKIPPED_KEYS: Final = ("status", "metadata")


def bare_views(document: Document, namespace: str) -> Iterator[PodView]:
    """A view of each path of a document that requests a vendor's resources outside a pod template."""
    if is_dra(document):
        return
    pods = {pod.path for pod in pod_specs(document)}
    for path in _bare_paths(document.tree, (), pods):
        resources = mapping(at(document.tree, (*path, "resources")))
        limits, requests = mapping(resources.get("limits")), mapping(resources.get("requests"))
        name = text(mapping(at(document.tree, path)).get("name")) or str(path[-1] if path else "")
        container = ContainerView(path, name, False, (), limits, requests)
        kind, part = document.kind or "Values", _path_text(path)
        yield PodView(document, kind, key_of(document, namespace), path, {}, 1, (), (container,), True, part)


def _bare_paths(tree: Any, path: Path, pods: Collection[Path]) -> Iterator[Path]:
    if path in pods:
        return
    if isinstance(tree, list):
        for number, item in enumerate(tree):
            yield from _bare_paths(item, (*path, number), pods)
    elif isinstance(tree, dict):
        resources = mapping(tree.get("resources"))
        if any(_has_vendor_resources(resources.get(field)) for field in ("limits", "requests")):
            yield path
        for key, value in tree.items():
            if len(path) > 0 or key not in _SKIPPED_KEYS:
                yield from _bare_paths(value, (*path, key), pods)


def _has_vendor_resources(amounts: Any) -> bool:
    return any(vendor_of(str(name)) for name in mapping(amounts))


def _path_text(path: Path) -> str:
    """A path as text, without a leading ``spec``: ``predictor.model``, ``tasks[0]``."""
    steps = path[1:] if path[:1] == ("spec",) else path
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps).lstrip(".")


_REQUIRED: Final = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
_PREFERRED: Final = ("affinity", "nodeAffinity", "preferredDuringSchedulingIgnoredDuringExecution")
#: A MIG manager configuration with one profile for all GPUs of a node.
_ALL_CUT: Final = re.compile(r"all-([1-9][0-9]*g\.[0-9]+gb(?:[.+]me)?)")
_GKE_PARTITION: Final = "cloud.google.com/gke-gpu-partition-size"


def workloads_of(
    documents: Iterable[Document], target: Target, namespace: str = "default"
) -> tuple[WorkloadRequests, ...]:
    """The workloads that request device plugin resources, in the order of the documents."""
    everything = tuple(documents)
    shared = sharing_from_configs(everything)
    nodes = sharing_of_nodes(target)
    found = [
        _workload(view, shared, nodes, target, bare)
        for document in everything
        for bare, views in ((False, pod_views(document, namespace)), (True, bare_views(document, namespace)))
        for view in map(_named, views)
    ]
    return tuple(workload for workload in found if workload is not None)


def _workload(
    view: PodView, shared: Mapping[str, Sharing], nodes: Sharing | None, target: Target, bare: bool
) -> WorkloadRequests | None:
    selector = tuple(_selector(view))
    affinity = tuple(tuple(_term(path, term)) for path, term in _terms(view))
    preferred = tuple(
        requirement
        for number, preference in items(at(view.tree, _PREFERRED))
        for requirement in _term((*view.spec, *_PREFERRED, number, "preference"), mapping(preference.get("preference")))
    )
    # A single affinity term is as binding as a nodeSelector.
    always = (*selector, *(affinity[0] if len(affinity) == 1 else ()))
    own = sharing_from_selectors(always)
    if own is None and _chooses_unshared(always):
        nodes = None
        shared = {name: sharing for name, sharing in shared.items() if name.endswith(SHARED)}
    profile = _profile(always) or profile_of_nodes(target, always)
    containers: list[ContainerRequests] = []
    unknown: dict[str, None] = {}
    unreadable: dict[str, None] = {}
    for container in view.containers:
        parsed = parse_requests({**container.requests, **container.limits})
        unknown |= dict.fromkeys(parsed.unknown)
        unreadable |= dict.fromkeys(parsed.unreadable)
        if parsed.requests:
            requests = tuple(
                _with_sharing(request, profile, own, shared, nodes, target.shares) for request in parsed.requests
            )
            role = _role(view, container)
            containers.append(
                ContainerRequests(
                    path=container.path, name=container.name, role=role, requests=requests, resources=parsed.used
                )
            )
    if not (containers or unknown or unreadable):
        return None
    return WorkloadRequests(
        view,
        tuple(containers),
        selector,
        affinity,
        preferred,
        unknown=tuple(unknown),
        unreadable=tuple(unreadable),
        bare=bare,
    )


def _named(view: PodView) -> PodView:
    """The view with its name, or with its ``generateName`` prefix: ``train-*``."""
    stem = text(mapping(view.document.tree.get("metadata")).get("generateName"))
    key = ObjectKey(view.key.namespace, f"{stem}{GENERATED}")
    return view._replace(key=key) if stem and not view.key.name else view


def _with_sharing(
    request: PluginRequest,
    profile: str,
    own: Sharing | None,
    shared: Mapping[str, Sharing],
    nodes: Sharing | None,
    shares: int,
) -> PluginRequest:
    """The request completed from labels and the plugin's configuration."""
    if request.vendor != "nvidia" or request.usage == "fraction":
        return request
    if profile and not request.profile:
        request = replace(request, profile=profile, usage="piece" if request.usage == "whole" else request.usage)
    if request.resource.removesuffix(SHARED) != "nvidia.com/gpu":
        own = None  # labels of pieces have the piece's name
    known = [sharing for sharing in (own, request.sharing, shared.get(request.resource)) if sharing is not None]
    if nodes is not None and (known or request.resource == "nvidia.com/gpu"):
        known.append(nodes)
    if not known:
        return request
    strategy: Strategy = ""
    for sharing in reversed(known):
        strategy = sharing.strategy or strategy
    replicas = next((sharing.replicas for sharing in known if sharing.replicas), 0)
    source = next((sharing.source for sharing in known if sharing.replicas), known[0].source)
    if not replicas and shares:
        replicas, source = shares, "--shares"
    return replace(request, usage="share", sharing=Sharing(strategy=strategy, replicas=replicas, source=source))


def _chooses_unshared(terms: Iterable[Term]) -> bool:
    """Whether the terms select nodes with unshared GPUs.

    Feature discovery adds a suffix to the product of shared GPUs, unless the shared resource has a separate name.
    """
    return any(
        term.key == "nvidia.com/gpu.product"
        and term.operator == "In"
        and not any(value.endswith("-SHARED") for value in term.values)
        for term in terms
    )


def _profile(terms: Iterable[Term]) -> str:
    """The MIG profile of ``nvidia.com/gpu`` that the labels select, or empty."""
    for term in terms:
        if term.operator != "In" or len(term.values) != 1:
            continue
        if term.key == _GKE_PARTITION:
            return term.values[0]
        if term.key == "nvidia.com/gpu.product" and (profile := single_profile(term.values[0])):
            return profile
        if term.key == "nvidia.com/mig.config" and (found := _ALL_CUT.fullmatch(term.values[0])):
            return found[1].replace(".me", "+me")
    return ""


def _role(view: PodView, container: ContainerView) -> Role:
    if not container.init:
        return "container"
    written = mapping(at(view.document.tree, container.path))
    return "sidecar" if written.get("restartPolicy") == "Always" else "init"


# --- node requirements -----------------------------------------------------------------------------------------------


def _selector(view: PodView) -> Iterator[Term]:
    for key, value in mapping(view.tree.get("nodeSelector")).items():
        yield Term((*view.spec, "nodeSelector", key), key, "In", (value if isinstance(value, str) else str(value),))


def _terms(view: PodView) -> Iterator[tuple[Path, dict[str, Any]]]:
    for number, term in items(at(view.tree, _REQUIRED)):
        yield (*view.spec, *_REQUIRED, number), term


def _term(path: Path, term: Mapping[str, Any]) -> Iterator[Term]:
    for number, expression in items(term.get("matchExpressions")):
        where = (*path, "matchExpressions", number)
        yield Term(
            where, text(expression.get("key")), text(expression.get("operator")), strings(expression.get("values"))
        )
