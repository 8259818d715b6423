"""Discovery of the resources that a cluster serves, with their names and short names.

One request each for the core group and for all others (aggregated discovery, 1.30 and newer); for servers and proxies
without it, one per group version. Order matters: of kinds with the same name, and of the versions of a kind, the first
in the server's list is used.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from allotment.cluster.client import Reader, Resource
from allotment.cluster.errors import StatusError
from allotment.model.trees import Tree

_AGGREGATED = ",".join(
    (
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
        "application/json",
    )
)


class ServedResource(NamedTuple):
    """A resource in one version that the cluster serves; ``categories`` are names such as ``all``."""

    resource: Resource
    singular: str
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The name in kubectl's output, before the slash: ``pod``, ``deployment.apps``."""
        return f"{self.singular}.{self.resource.group}" if self.resource.group else self.singular

    @property
    def plural_label(self) -> str:
        """The name in server messages: ``pods``, ``deployments.apps``."""
        resource = self.resource
        return f"{resource.plural}.{resource.group}" if resource.group else resource.plural


class Discovery:
    """All resources that a cluster serves, preferred versions first."""

    def __init__(self, served: Iterable[ServedResource]) -> None:
        self.served = tuple(served)

    def by_word(self, word: str) -> ServedResource | None:
        """Look up a plural, singular, short name or kind, optionally with ``.group`` or ``.version.group``.

        >>> resource = Resource("apps", "v1", "deployments", "Deployment", True)
        >>> deployments = ServedResource(resource, "deployment", ("deploy",))
        >>> [
        ...     Discovery([deployments]).by_word(w) is deployments
        ...     for w in ("deploy", "Deployment", "deployments.v1.apps")
        ... ]
        [True, True, True]
        """
        wanted = word.lower()
        name, _, rest = wanted.partition(".")
        # First without group: a CustomResourceDefinition may have a dot in no name of its own.
        for group in _groups(rest):
            for match in (_named, _shortened):
                for served in self.served:
                    if match(served, name) and group(served.resource):
                        return served
        return None

    def by_type(self, api_version: str, kind: str) -> ServedResource | None:
        """The resource of an API version and kind."""
        for served in self.served:
            if served.resource.kind == kind and served.resource.api_version == api_version:
                return served
        return None

    def versions_of(self, group: str, plural: str) -> tuple[ServedResource, ...]:
        """A resource in all served versions."""
        return tuple(
            served for served in self.served if (served.resource.group, served.resource.plural) == (group, plural)
        )

    def in_category(self, word: str) -> tuple[ServedResource, ...]:
        """The listable resources of a category such as ``all``, each once."""
        found: dict[tuple[str, str], ServedResource] = {}
        for served in self.served:
            if word.lower() in served.categories and "list" in served.verbs:
                found.setdefault((served.resource.group, served.resource.plural), served)
        return tuple(found.values())

    def words(self) -> Iterator[str]:
        """All names of resources, for suggestions."""
        for served in self.served:
            yield served.resource.plural
            yield served.singular
            yield from served.short_names


def _groups(rest: str) -> Iterator[Any]:
    if not rest:
        yield lambda resource: True
        return
    version, _, group = rest.partition(".")
    yield lambda resource: resource.group == rest
    yield lambda resource: resource.group == group and resource.version == version
    yield lambda resource: resource.group.startswith(rest)


def _named(served: ServedResource, name: str) -> bool:
    return name in (served.resource.plural, served.singular, served.resource.kind.lower())


def _shortened(served: ServedResource, name: str) -> bool:
    return name in served.short_names


async def discover(client: Reader) -> Discovery:
    """Discover the served resources. Groups whose API service is unavailable are left out, as in kubectl."""
    core, groups = await asyncio.gather(
        client.read("/api", (), _AGGREGATED), client.read("/apis", (), _AGGREGATED)
    )  # fmt: skip
    if core.get("kind") == "APIGroupDiscoveryList" and groups.get("kind") == "APIGroupDiscoveryList":
        return Discovery(served for tree in (core, groups) for served in _aggregated(tree))
    return await _one_by_one(client, core, groups)


def _aggregated(tree: Tree) -> Iterator[ServedResource]:
    for item in tree.get("items") or ():
        group = (item.get("metadata") or {}).get("name") or ""
        for version in item.get("versions") or ():
            for entry in version.get("resources") or ():
                kind = (entry.get("responseKind") or {}).get("kind") or ""
                resource = Resource(
                    group,
                    version.get("version", ""),
                    entry.get("resource", ""),
                    kind,
                    entry.get("scope") == "Namespaced",
                )
                yield _served(resource, entry.get("singularResource"), entry)


async def _one_by_one(client: Reader, core: Tree, groups: Tree) -> Discovery:
    places = [("", version, f"/api/{version}") for version in core.get("versions") or ()]
    for group in groups.get("groups") or ():
        name, preferred = group.get("name", ""), (group.get("preferredVersion") or {}).get("version")
        listed = [version.get("version", "") for version in group.get("versions") or ()]
        versions = [*(v for v in listed if v == preferred), *(v for v in listed if v != preferred)]
        places += ((name, version, f"/apis/{name}/{version}") for version in versions)
    lists = await asyncio.gather(*(client.read(path) for _, _, path in places), return_exceptions=True)
    found: list[ServedResource] = []
    for (group, version, _), tree in zip(places, lists, strict=True):
        if isinstance(tree, StatusError):
            continue
        if isinstance(tree, BaseException):
            raise tree
        for entry in tree.get("resources") or ():
            if "/" not in entry.get("name", ""):
                resource = Resource(group, version, entry["name"], entry.get("kind", ""), bool(entry.get("namespaced")))
                found.append(_served(resource, entry.get("singularName"), entry))
    return Discovery(found)


def _served(resource: Resource, singular: str | None, tree: Tree) -> ServedResource:
    return ServedResource(
        resource, singular or resource.kind.lower(), tuple(tree.get("shortNames") or ()),
        tuple(tree.get("categories") or ()), tuple(tree.get("verbs") or ()),
    )  # fmt: skip
