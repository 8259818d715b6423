"""Converts between the versions that programs use and those that a lab serves, for clients in its process."""

from __future__ import annotations

from allotment.apiserver.local_client import LocalClient
from allotment.apiserver.served_kinds import Catalog
from allotment.cluster.client import Client, Resource
from allotment.cluster.converting_client import CONVERTIBLE, ConvertingClient, best_version


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
