"""The metadata that a write to a subresource does not change."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from allotment.model.trees import Tree

#: Fields that a write to the status of most kinds keeps.
STATUS_KEEPS: Final = (
    "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "labels", "annotations", "finalizers",
    "ownerReferences",
)  # fmt: skip


def with_kept(new: Tree, old: Tree, names: Collection[str]) -> Tree:
    """The metadata of an update that keeps the fields with these names as they were."""
    return {
        **{name: value for name, value in new.items() if name not in names},
        **{name: value for name, value in old.items() if name in names},
    }
