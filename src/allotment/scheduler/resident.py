"""A pod that takes room on a node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from allotment.scheduler.demand import Demand


class Resident(NamedTuple):
    """A pod on a node, or on its way there."""

    uid: str
    namespace: str
    name: str
    labels: Mapping[str, str]
    priority: int
    demand: Demand
    started: str
    terminating: bool = False
    preempted: bool = False
