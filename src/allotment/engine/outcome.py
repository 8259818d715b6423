"""The outcome of an allocation attempt on one node: allocated, unfit or aborted.

Kubernetes distinguishes the same three cases: results, no results (the node does not fit), and an error. An error
either affects only the node or is *fatal*: then the scheduling attempt of the pod ends on all nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from allotment.engine.cluster.identity import DeviceID
from allotment.model.meta import ObjectKey
from allotment.model.resource import AllocationResult


@dataclass(frozen=True, slots=True)
class Allocated:
    """The claims fit: one result per claim, in the order of the claims."""

    results: tuple[AllocationResult, ...]


@dataclass(frozen=True, slots=True)
class Unfit:
    """The claims do not fit on this node."""


class AbortCause(Enum):
    """The cause of an aborted attempt; the values are stable codes."""

    FEATURE_OFF = "feature-off"
    """A request uses a field whose feature gate is off."""
    BAD_REQUEST = "bad-request"
    """A request or constraint that an API server would have rejected."""
    CLASS_MISSING = "class-missing"
    POOL_INCOMPLETE = "pool-incomplete"
    """``allocationMode: All`` while a pool is being updated."""
    POOL_INVALID = "pool-invalid"
    """``allocationMode: All`` with an invalid pool, or nothing fits and a pool is invalid (not fatal)."""
    TOO_MANY_DEVICES = "too-many-devices"
    """A claim requests more than 32 devices."""
    SELECTOR = "selector"
    """A CEL selector does not compile, or fails on a device."""
    DERIVED_ATTRIBUTE = "derived-attribute"
    """The expression of a derived attribute does not compile, or fails on a device."""
    CAPACITY = "capacity"
    """A requested or published capacity is negative, or cannot be represented in the arithmetic of its range."""
    CONSTRAINT_WITH_ALL = "constraint-with-all"
    """``allocationMode: All`` includes a device that violates a constraint of the claim."""
    NODE_SELECTION = "node-selection"
    """A node selector of a slice or device cannot be used."""
    WORK_LIMIT = "work-limit"
    """The search reached its step limit, so whether the claims fit the node is undecided (not fatal).

    Kubernetes limits the time of a search instead (DRASchedulerFilterTimeout, KEP-4381). A step limit gives the same
    result on every machine.
    """


@dataclass(frozen=True, slots=True)
class Aborted:
    """An error. ``text`` is Kubernetes' text; ``fatal`` means that no other node is tried."""

    text: str
    fatal: bool
    cause: AbortCause
    claim: ObjectKey | None = None
    request: str | None = None
    device: DeviceID | None = None
    """The device on which an expression or the capacity failed, or that violates a constraint."""
    steps: int = 0
    """Steps of the search, if it reached the limit."""


Outcome = Allocated | Unfit | Aborted
