"""Adds and removes custom kinds in the catalog as their definitions are stored and deleted.

If the finalizers of a definition are removed by force, its objects are deleted despite theirs, since no client could
access them afterwards.
"""

from __future__ import annotations

from collections.abc import Callable

from allotment.apiserver.custom_resources.definitions import DEFINITIONS
from allotment.apiserver.custom_resources.kinds import kind_from_definition
from allotment.apiserver.served_kinds import Catalog
from allotment.apiserver.storage.store import Change, Store


def follow_definitions(store: Store, catalog: Catalog, kube: str) -> Callable[[], None]:
    """Serve the stored definitions and follow changes; returns a function that stops following."""

    def on_change(change: Change) -> None:
        name = change.entry.name
        catalog.define(name, None if change.type == "DELETED" else kind_from_definition(change.entry.tree, kube))

    for entry in store.list(DEFINITIONS):
        catalog.define(entry.name, kind_from_definition(entry.tree, kube))
    return store.subscribe(DEFINITIONS, on_change)


def delete_objects(store: Store, definition: str) -> None:
    """Delete all objects of a definition; its name is their bucket."""
    for entry in tuple(store.list(definition)):
        store.delete(definition, entry.namespace, entry.name)
