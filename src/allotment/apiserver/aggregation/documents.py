"""Discovery of aggregated APIs: the groups, and the resources that their servers list."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from allotment.apiserver.aggregation.registry import ServedApi
from allotment.model.trees import Tree


def groups(apis: Iterable[ServedApi]) -> Sequence[Tree]:
    """The groups as listed in ``/apis``, by priority."""
    return [_group(group, listed) for group, listed in _by_group(apis).items()]


def group_discovery(apis: Iterable[ServedApi]) -> Sequence[Tree]:
    """The groups as in an APIGroupDiscoveryList, by priority."""
    return [
        {"metadata": {"name": group}, "versions": [_version(served) for served in listed]}
        for group, listed in _by_group(apis).items()
    ]


def _by_group(apis: Iterable[ServedApi]) -> Mapping[str, Sequence[ServedApi]]:
    """The APIs of each group; groups and versions with a higher priority are first."""
    found: dict[str, list[ServedApi]] = {}
    ordered = sorted(apis, key=lambda served: (-served.api.group_priority, served.api.group))
    for served in ordered:
        found.setdefault(served.api.group, []).append(served)
    for listed in found.values():
        listed.sort(key=lambda served: (-served.api.version_priority, served.api.version))
    return found


def _group(group: str, listed: Sequence[ServedApi]) -> Tree:
    versions = [{"groupVersion": f"{group}/{served.api.version}", "version": served.api.version} for served in listed]
    return {"name": group, "versions": versions, "preferredVersion": versions[0]}


def _version(served: ServedApi) -> Tree:
    is_current = served.outcome is not None and served.outcome.is_available
    resources: dict[str, Tree] = {}
    for each in served.resources:
        plural, _, subresource = str(each["name"]).partition("/")
        kind = {
            "group": each.get("group") or served.api.group, "version": each.get("version") or served.api.version,
            "kind": each["kind"],
        }  # fmt: skip
        verbs = list(each.get("verbs") or ())
        if not subresource:
            names = {name: each[name] for name in ("shortNames", "categories") if each.get(name)}
            resources[plural] = {
                "resource": plural, "responseKind": kind,
                "scope": "Namespaced" if each.get("namespaced") else "Cluster",
                "singularResource": each.get("singularName") or "", "verbs": verbs, **names,
            }  # fmt: skip
        elif plural in resources:
            entry = {"subresource": subresource, "responseKind": kind, "verbs": verbs}
            resources[plural].setdefault("subresources", []).append(entry)
    freshness = "Current" if is_current else "Stale"
    return {"version": served.api.version, "resources": [*resources.values()], "freshness": freshness}
