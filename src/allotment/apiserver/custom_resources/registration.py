"""The kinds of users appear and disappear with their definitions: the catalog follows what is stored.

A definition that goes takes its objects along, whatever holds them: nobody could read or release them afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from allotment.apiserver.custom_resources.kinds import kind_of
from allotment.apiserver.served_kinds import Catalog
from allotment.apiserver.storage.store import Change, Store

DEFINITIONS: Final = "customresourcedefinitions.apiextensions.k8s.io"


def follow(store: Store, catalog: Catalog, kube: str) -> Callable[[], None]:
    """Serve what is defined, from now on; returns how to stop."""

    def tell(change: Change) -> None:
        name = change.entry.name
        catalog.define(name, None if change.type == "DELETED" else kind_of(change.entry.tree, kube))

    for entry in store.list(DEFINITIONS):
        catalog.define(entry.name, kind_of(entry.tree, kube))
    return store.subscribe(DEFINITIONS, tell)


def clear(store: Store, definition: str) -> None:
    """Delete all objects of a definition: its name is their bucket's."""
    for entry in tuple(store.list(definition)):
        store.delete(definition, entry.namespace, entry.name)
