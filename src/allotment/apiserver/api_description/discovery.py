"""Discovery documents: the served resources, per group or aggregated (KEP-3352).

Pure functions from kinds to trees. Both forms have the same contents; kubectl uses the aggregated one, cached by ETag.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from typing import Final

from allotment.apiserver.api_description.groups import by_group, group_version, subresources
from allotment.apiserver.kinds.kind import ServedKind
from allotment.model.trees import Tree

#: Kubernetes still returns the hash of the version in which it used to store definitions.
_STORED: Final = {"customresourcedefinitions.apiextensions.k8s.io": "v1beta1"}


def api_versions(server: str) -> Tree:
    """/api: the versions of the core group."""
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": server}],
    }


def api_groups(kinds: Sequence[ServedKind], others: Sequence[Tree] = ()) -> Tree:
    """/apis: every group but the core one. ``others``: the groups that other servers serve."""
    groups = [_group(group, list(versions)) for group, versions in by_group(kinds).items() if group]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": _merged(groups, others)}


def api_group(kinds: Sequence[ServedKind], group: str, others: Sequence[Tree] = ()) -> Tree | None:
    """/apis/GROUP; None if the group does not exist."""
    found = next((each for each in api_groups(kinds, others)["groups"] if each["name"] == group), None)
    return None if found is None else {"kind": "APIGroup", "apiVersion": "v1", **found}


def _merged(groups: Sequence[Tree], others: Sequence[Tree]) -> Sequence[Tree]:
    """The groups, and those of other servers; versions that both have are those of the other server."""
    remote = {_group_name(each): each for each in others}
    merged = []
    for group in groups:
        other = remote.pop(_group_name(group), None)
        if other is not None:
            known = {each["version"] for each in other["versions"]}
            own = [each for each in group["versions"] if each["version"] not in known]
            group = {**group, "versions": [*own, *other["versions"]]}
        merged.append(group)
    return [*merged, *remote.values()]


def _group_name(group: Tree) -> str:
    return str(group.get("name") or (group.get("metadata") or {}).get("name") or "")


def api_resources(kinds: Sequence[ServedKind], group: str, version: str) -> Tree | None:
    """/apis/GROUP/VERSION or /api/v1; None if the version does not exist."""
    served = by_group(kinds).get(group, {}).get(version)
    if served is None:
        return None
    # The core group's list has no apiVersion, as upstream.
    head: Tree = {"kind": "APIResourceList"} | ({"apiVersion": "v1"} if group else {})
    resources = [resource for kind in served for resource in _resources(kind)]
    return {**head, "groupVersion": group_version(group, version), "resources": resources}


def discovery(kinds: Sequence[ServedKind], *, core: bool, others: Sequence[Tree] = ()) -> Tree:
    """The APIGroupDiscoveryList of the core group or of all other groups; ``others``: those of other servers."""
    items = [
        {
            "metadata": {"name": group} if group else {},
            "versions": [
                {
                    "version": version,
                    "resources": [_discovered(kind, version) for kind in served],
                    "freshness": "Current",
                }
                for version, served in versions.items()
            ],
        }
        for group, versions in by_group(kinds).items()
        if (group == "") is core
    ]
    head = {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}}
    return {**head, "items": _merged(items, others)}


def _group(group: str, versions: list[str]) -> Tree:
    entries = [{"groupVersion": group_version(group, version), "version": version} for version in versions]
    return {"name": group, "versions": entries, "preferredVersion": entries[0]}


def _resources(kind: ServedKind) -> list[Tree]:
    main: Tree = {
        "name": kind.plural,
        "singularName": kind.singular or kind.kind.lower(),
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": list(kind.listed_verbs),
        **_names(kind),
    }
    if "list" in kind.verbs:
        main["storageVersionHash"] = _storage_hash(kind)
    entries = [main]
    for sub in subresources(kind):
        own: Tree = {"name": f"{kind.plural}/{sub.name}", "singularName": "", "namespaced": kind.namespaced}
        if sub.group:
            own |= {"group": sub.group, "version": sub.version}
        entries.append({**own, "kind": sub.kind, "verbs": list(sub.verbs)})
    return entries


def _discovered(kind: ServedKind, version: str) -> Tree:
    # Built-in kinds omit their group and version; custom resources include them.
    group, own_version = (kind.group, version) if kind.shapes else ("", "")
    result: Tree = {
        "resource": kind.plural,
        "responseKind": {"group": group, "version": own_version, "kind": kind.kind},
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular or kind.kind.lower(),
        "verbs": list(kind.listed_verbs),
        **_names(kind),
    }
    if kind.subresources:
        result["subresources"] = [
            {
                "subresource": sub.name,
                "responseKind": {"group": sub.group or group, "version": sub.version or own_version, "kind": sub.kind},
                "verbs": list(sub.verbs),
            }
            for sub in subresources(kind)
        ]
    return result


def _names(kind: ServedKind) -> Tree:
    names: Tree = {}
    if kind.short_names:
        names["shortNames"] = list(kind.short_names)
    if kind.categories:
        names["categories"] = list(kind.categories)
    return names


def _storage_hash(kind: ServedKind) -> str:
    """The storage version hash, by which clients notice a change of the storage version."""
    group, version = kind.group, kind.stored_in or kind.storage_version
    if kind.stored_as:
        group, version = kind.stored_as.partition(".")[2], "v1"
    text = f"{group}/{_STORED.get(kind.bucket, version)}/{kind.kind}"
    return base64.b64encode(hashlib.sha256(text.encode()).digest()[:8]).decode("ascii")
