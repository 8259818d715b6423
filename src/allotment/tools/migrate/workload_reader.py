"""Reads workloads: which ask a device plugin for something, in which containers, and on which nodes.

Extended resources are asked for in limits; a request beside one must be equal, and one alone is not allowed. Labels say
the rest: which GPU (feature discovery, the clouds), how it is cut, how many share it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from msgspec.structs import replace

from allotment.model.loading import Document
from allotment.model.loading.marks import Path
from allotment.model.meta import ObjectKey
from allotment.tools.migrate.plugin_config import configured, cut_on_nodes, on_nodes, selected, single_profile
from allotment.tools.migrate.plugin_requests import (
    GENERATED,
    Ask,
    ContainerAsk,
    Role,
    Sharing,
    Strategy,
    Term,
    WorkloadAsk,
)
from allotment.tools.migrate.resource_names import SHARED, asks_of, vendor_of
from allotment.tools.migrate.target import Target
from allotment.tools.views import ContainerView, PodView, at, is_dra, items, key_of, mapping, pod_views, strings, text
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


_REQUIRED: Final = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
_PREFERRED: Final = ("affinity", "nodeAffinity", "preferredDuringSchedulingIgnoredDuringExecution")
#: What MIG manager makes of all GPUs of a node.
_ALL_CUT: Final = re.compile(r"all-([1-9][0-9]*g\.[0-9]+gb(?:[.+]me)?)")
_GKE_PARTITION: Final = "cloud.google.com/gke-gpu-partition-size"


def workloads_of(documents: Iterable[Document], target: Target, namespace: str = "default") -> tuple[WorkloadAsk, ...]:
    """The workloads that ask a device plugin for something, in the order of the documents."""
    everything = tuple(documents)
    shared = configured(everything)
    nodes = on_nodes(target)
    found = [
        _workload(view, shared, nodes, target, bare)
        for document in everything
        for bare, views in ((False, pod_views(document, namespace)), (True, bare_views(document, namespace)))
        for view in map(_called, views)
    ]
    return tuple(workload for workload in found if workload is not None)


def _workload(
    view: PodView, shared: Mapping[str, Sharing], nodes: Sharing | None, target: Target, bare: bool
) -> WorkloadAsk | None:
    selector = tuple(_selector(view))
    affinity = tuple(tuple(_term(path, term)) for path, term in _terms(view))
    preferred = tuple(
        requirement
        for number, one in items(at(view.tree, _PREFERRED))
        for requirement in _term((*view.spec, *_PREFERRED, number, "preference"), mapping(one.get("preference")))
    )
    # What every term of the affinity demands holds as much as a nodeSelector.
    always = (*selector, *(affinity[0] if len(affinity) == 1 else ()))
    own = selected(always)
    if own is None and _chooses_unshared(always):
        nodes = None
        shared = {name: sharing for name, sharing in shared.items() if name.endswith(SHARED)}
    profile = _profile(always) or cut_on_nodes(target, always)
    containers: list[ContainerAsk] = []
    unknown: dict[str, None] = {}
    unreadable: dict[str, None] = {}
    for container in view.containers:
        asked = asks_of({**container.requests, **container.limits})
        unknown |= dict.fromkeys(asked.unknown)
        unreadable |= dict.fromkeys(asked.unreadable)
        if asked.asks:
            asks = tuple(_completed(ask, profile, own, shared, nodes, target.shares) for ask in asked.asks)
            role = _role(view, container)
            containers.append(
                ContainerAsk(path=container.path, name=container.name, role=role, asks=asks, resources=asked.used)
            )
    if not (containers or unknown or unreadable):
        return None
    return WorkloadAsk(
        view,
        tuple(containers),
        selector,
        affinity,
        preferred,
        unknown=tuple(unknown),
        unreadable=tuple(unreadable),
        bare=bare,
    )


def _called(view: PodView) -> PodView:
    """The view by its name, or by what the API server makes one of: ``train-*``."""
    stem = text(mapping(view.document.tree.get("metadata")).get("generateName"))
    key = ObjectKey(view.key.namespace, f"{stem}{GENERATED}")
    return view._replace(key=key) if stem and not view.key.name else view


def _completed(
    ask: Ask, profile: str, own: Sharing | None, shared: Mapping[str, Sharing], nodes: Sharing | None, shares: int
) -> Ask:
    """The ask with what labels and the plugin's settings say of it."""
    if ask.vendor != "nvidia" or ask.sort == "fraction":
        return ask
    if profile and not ask.profile:
        ask = replace(ask, profile=profile, sort="piece" if ask.sort == "whole" else ask.sort)
    if ask.resource.removesuffix(SHARED) != "nvidia.com/gpu":
        own = None  # labels of pieces have the piece's name
    known = [one for one in (own, ask.sharing, shared.get(ask.resource)) if one is not None]
    if nodes is not None and (known or ask.resource == "nvidia.com/gpu"):
        known.append(nodes)
    if not known:
        return ask
    strategy: Strategy = ""
    for one in reversed(known):
        strategy = one.strategy or strategy
    replicas = next((one.replicas for one in known if one.replicas), 0)
    told_by = next((one.told_by for one in known if one.replicas), known[0].told_by)
    if not replicas and shares:
        replicas, told_by = shares, "--shares"
    return replace(ask, sort="share", sharing=Sharing(strategy=strategy, replicas=replicas, told_by=told_by))


def _chooses_unshared(terms: Iterable[Term]) -> bool:
    """Whether the nodes are those whose GPUs are not shared: feature discovery marks the product of others.

    It does so unless the shared resource has a name of its own.
    """
    return any(
        term.key == "nvidia.com/gpu.product"
        and term.operator == "In"
        and not any(value.endswith("-SHARED") for value in term.values)
        for term in terms
    )


def _profile(terms: Iterable[Term]) -> str:
    """The MIG profile that the nodes' GPUs are cut into, where labels say so for ``nvidia.com/gpu``."""
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


# --- where it may run ------------------------------------------------------------------------------------------------


def _selector(view: PodView) -> Iterator[Term]:
    for key, value in mapping(view.tree.get("nodeSelector")).items():
        yield Term((*view.spec, "nodeSelector", key), key, "In", (value if isinstance(value, str) else str(value),))


def _terms(view: PodView) -> Iterator[tuple[Path, dict[str, Any]]]:
    for number, term in items(at(view.tree, _REQUIRED)):
        yield (*view.spec, *_REQUIRED, number), term


def _term(path: Path, term: Mapping[str, Any]) -> Iterator[Term]:
    for number, one in items(term.get("matchExpressions")):
        where = (*path, "matchExpressions", number)
        yield Term(where, text(one.get("key")), text(one.get("operator")), strings(one.get("values")))
