"""Node operations that a claim's devices do not need (``skipNodeOperations``, KEP-5945).

Each allocated device lists the operations of its driver that its kubelet may skip. A driver is called once for a claim,
so an operation is skipped only if all devices of the driver list it.
"""

from __future__ import annotations

from collections.abc import Iterable

from allotment.model.trees import Tree
from allotment.model.validation.node_operations import ALL


def skipped_operations(results: Iterable[Tree]) -> dict[str, tuple[str, ...]]:
    """The operations to skip by driver, for all drivers of an allocation's ``devices.results``.

    >>> skipped_operations(
    ...     [
    ...         {"driver": "a", "skipNodeOperations": ["*"]},
    ...         {"driver": "a", "skipNodeOperations": ["NodeUnprepareResources"]},
    ...         {"driver": "b"},
    ...     ]
    ... )
    {'a': ('NodeUnprepareResources',), 'b': ()}
    """
    listed: dict[str, list[frozenset[str]]] = {}
    for result in results:
        listed.setdefault(result["driver"], []).append(frozenset(result.get("skipNodeOperations") or ()))
    return {driver: _common(operations) for driver, operations in listed.items()}


def skips(operations: Iterable[str], operation: str) -> bool:
    """Whether ``operation`` is one of a driver's skipped ``operations``."""
    return any(each in (ALL, operation) for each in operations)


def _common(operations: list[frozenset[str]]) -> tuple[str, ...]:
    """The operations in all lists; ``*`` stands for all operations."""
    restricted = [each for each in operations if ALL not in each]
    if not restricted:
        return (ALL,)
    return tuple(sorted(frozenset.intersection(*restricted)))
