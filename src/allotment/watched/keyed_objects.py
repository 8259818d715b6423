"""The objects of a cluster by kind and key: as values, and as they are written, which takes a tenth of the memory as
JSON that is compressed until one is shown."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeVar

import msgspec

from allotment.model.meta import ObjectKey
from allotment.model.trees import Tree
from allotment.watched.view import Identity

T = TypeVar("T")

#: Below this size, in bytes, compression saves little.
_SMALL: Final = 400
#: The first byte of what zlib writes; that of JSON is a brace.
_ZLIB: Final = 0x78


def packed(tree: Tree) -> bytes:
    """Return a tree in a form that takes little memory, and that the garbage collector does not look into."""
    text = msgspec.json.encode(tree)
    return zlib.compress(text, 1) if len(text) >= _SMALL else text


def unpacked(data: bytes) -> Tree:
    """Return the tree of `packed`.

    >>> unpacked(packed({"kind": "Pod"})), unpacked(packed({"kind": "Pod" * 1000})) == {"kind": "Pod" * 1000}
    ({'kind': 'Pod'}, True)
    """
    tree: Tree = msgspec.json.decode(zlib.decompress(data) if data[0] == _ZLIB else data)
    return tree


class KeyedObjects(Mapping[Identity, T]):
    """Values of one sort for all objects at one moment. Kinds without changes share their part with earlier moments."""

    def __init__(self, by_kind: Mapping[str, Mapping[ObjectKey, T]]) -> None:
        self._by_kind = by_kind

    def __getitem__(self, identity: Identity) -> T:
        """Return the value for an object. Raises KeyError."""
        return self._by_kind[identity[0]][identity[1]]

    def __iter__(self) -> Iterator[Identity]:
        """Iterate over kinds and keys."""
        return ((kind, key) for kind, found in self._by_kind.items() for key in found)

    def __len__(self) -> int:
        """Return the number of objects."""
        return sum(map(len, self._by_kind.values()))


class UnpackedTrees(Mapping[Identity, Tree]):
    """Packed trees, each of which is unpacked when it is read."""

    def __init__(self, trees: Mapping[Identity, bytes]) -> None:
        self._trees = trees

    def __getitem__(self, identity: Identity) -> Tree:
        """Return the tree of an object. Raises KeyError."""
        return unpacked(self._trees[identity])

    def __contains__(self, identity: object) -> bool:
        """Whether there is an object with this kind and key."""
        return identity in self._trees

    def __iter__(self) -> Iterator[Identity]:
        """Iterate over kinds and keys."""
        return iter(self._trees)

    def __len__(self) -> int:
        """Return the number of objects."""
        return len(self._trees)


class VisibleTrees(Mapping[Identity, Tree]):
    """Those of the trees whose kind and key ``is_visible`` admits; the others are not read."""

    def __init__(self, trees: Mapping[Identity, Tree], is_visible: Callable[[str, ObjectKey], bool]) -> None:
        self._trees = trees
        self._is_visible = is_visible

    def __getitem__(self, identity: Identity) -> Tree:
        """Return the tree of an object. Raises KeyError."""
        if not self._is_visible(*identity):
            raise KeyError(identity)
        return self._trees[identity]

    def __iter__(self) -> Iterator[Identity]:
        """Iterate over kinds and keys."""
        return (identity for identity in self._trees if self._is_visible(*identity))

    def __len__(self) -> int:
        """Return the number of objects."""
        return sum(1 for _ in self)
