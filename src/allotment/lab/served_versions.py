"""The kinds and versions that a lab serves, and their conversion for programs in its process."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from allotment.apiserver.built_in_kinds import built_in_kinds
from allotment.apiserver.kinds.kind import ServedKind
from allotment.apiserver.local_client import LocalClient
from allotment.apiserver.resource_metrics.kinds import metrics_kinds
from allotment.apiserver.runtime_config import RuntimeConfigError
from allotment.apiserver.served_kinds import Catalog
from allotment.cluster.client import Client, Resource
from allotment.cluster.converting_client import CONVERTIBLE, ConvertingClient, best_version
from allotment.cluster.resources import CONFIG_MAPS, NAMESPACES, NODES, SERVICE_ACCOUNTS
from allotment.model.features import Features

#: The kinds of the objects without which no lab starts.
_REQUIRED: Final = (NAMESPACES, NODES, SERVICE_ACCOUNTS, CONFIG_MAPS)


def lab_kinds(features: Features, runtime_config: Iterable[str] = ()) -> tuple[ServedKind, ...]:
    """The built-in kinds of a lab, and those of metrics-server, with these features and ``--runtime-config``.

    Raises RuntimeConfigError for values that kube-apiserver refuses, and for kinds that a lab requires.
    """
    kinds = (*built_in_kinds(features, runtime_config), *metrics_kinds())
    for resource in _REQUIRED:
        if not _is_served(kinds, resource):
            raise RuntimeConfigError(f"a lab requires {resource.plural} of {resource.api_version}")
    return kinds


def serves(catalog: Catalog, resource: Resource) -> bool:
    """Whether a catalog has a built-in kind in any version."""
    return _is_served(catalog.built_in, resource)


def _is_served(kinds: Iterable[ServedKind], resource: Resource) -> bool:
    return any((kind.group, kind.plural) == (resource.group, resource.plural) for kind in kinds)


class CatalogVersions:
    """The versions of a catalog."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    async def of(self, resource: Resource) -> Resource:
        """The resource in the served version; unchanged if it is not served."""
        return self.served(resource)

    async def changed(self, resource: Resource, tried: Resource) -> bool:
        """Always false: a lab serves the same versions until it ends."""
        return False

    def served(self, resource: Resource) -> Resource:
        """The same, without waiting."""
        if resource not in CONVERTIBLE:
            return resource
        versions = [
            version
            for kind in self._catalog.built_in
            if (kind.group, kind.plural) == (resource.group, resource.plural)
            for version in kind.versions
        ]
        best = best_version(resource, versions)
        return resource._replace(version=best) if best else resource


def in_program_versions(client: LocalClient, catalog: Catalog) -> Client:
    """The client in the versions that programs use: the same one if the lab serves these."""
    versions = CatalogVersions(catalog)
    if all(versions.served(resource) == resource for resource in CONVERTIBLE):
        return client
    return ConvertingClient(client, versions, managed_fields=True)
