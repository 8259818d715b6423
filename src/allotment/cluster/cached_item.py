"""A cached object: its tree, frequently used fields, and its typed value, which is decoded on first use.

Revisions are compared as numbers, which Kubernetes guarantees since 1.35.
"""

from __future__ import annotations

from typing import Any, Final, Generic, TypeVar, cast

from allotment.model.trees import Tree, read_value

T = TypeVar("T")

_UNREAD: Final[Tree] = {}


class CachedItem(Generic[T]):
    """An object in a cache: the tree and its typed value, decoded on first use."""

    __slots__ = ("_controller", "_type", "_value", "key", "name", "namespace", "revision", "tree", "uid")

    def __init__(self, tree: Tree, type: type[T] | None = None) -> None:
        metadata = tree["metadata"]
        self.tree = tree
        self.namespace: str = metadata.get("namespace", "")
        self.name: str = metadata["name"]
        #: Namespace and name.
        self.key = (self.namespace, self.name)
        self.uid: str = metadata.get("uid", "")
        self.revision = revision_number(metadata.get("resourceVersion", ""))
        self._type = type
        self._value: T | None = None
        self._controller: Tree | None = _UNREAD

    def __repr__(self) -> str:
        return f"<CachedItem {self.namespace}/{self.name} at {self.revision}>"

    @property
    def value(self) -> T:
        """The typed value, decoded once; the tree if the cache has no type."""
        if self._value is None:
            self._value = cast("T", self.tree) if self._type is None else read_value(self.tree, self._type)
        return self._value

    def drop_tree(self) -> None:
        """Forget the tree: the only reader of the cache keeps the object in a form of its own. The cache itself needs
        only the key, the uid and the revision."""
        self.tree = _UNREAD

    @property
    def metadata(self) -> Tree:
        """``metadata`` of the tree."""
        return cast("Tree", self.tree["metadata"])

    @property
    def spec(self) -> Tree:
        """``spec`` of the tree, empty if missing."""
        return self.tree.get("spec") or {}

    @property
    def status(self) -> Tree:
        """``status`` of the tree, empty if missing."""
        return self.tree.get("status") or {}

    @property
    def labels(self) -> dict[str, str]:
        """Labels of the tree."""
        return self.tree["metadata"].get("labels") or {}

    @property
    def deleting(self) -> bool:
        """Whether its deletion was requested."""
        return "deletionTimestamp" in self.tree["metadata"]

    @property
    def controller(self) -> Tree | None:
        """The owner reference that says ``controller: true``."""
        if self._controller is _UNREAD:
            self._controller = _controller_of(self.tree)
        return self._controller


def revision_number(revision: str) -> int:
    """A resourceVersion as a number; 0 if it is empty."""
    return int(revision) if revision.isdecimal() else 0


def _controller_of(tree: Tree) -> Tree | None:
    """The owner reference that says ``controller: true``."""
    for owner in tree["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            return cast("Tree", owner)
    return None


def by_controller(item: CachedItem[Any]) -> tuple[str, ...]:
    """For indexes: the uid of the controlling owner."""
    owner = item.controller
    return (owner["uid"],) if owner else ()


def by_namespace(item: CachedItem[Any]) -> tuple[str, ...]:
    """For indexes: the namespace."""
    return (item.namespace,)


def by_uid(item: CachedItem[Any]) -> tuple[str, ...]:
    """For indexes: the object's own uid."""
    return (item.uid,)


def by_node(item: CachedItem[Any]) -> tuple[str, ...]:
    """For indexes of pods: the node that they are bound to."""
    node = item.spec.get("nodeName")
    return (node,) if node else ()
