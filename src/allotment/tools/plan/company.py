"""Whose coming may let a pod onto a node: those that it wants to be near, and those that even out a spread.

Others only ever take room. So a pod that found no node is tried again when one of these has come, and not before, as
the scheduler's queue does it.
"""

from __future__ import annotations

from collections.abc import Callable

from allotment.placing.filters.neighbours import meant
from allotment.placing.labels import matcher, with_pod_keys
from allotment.placing.podspec import TopologySpreadConstraint
from allotment.placing.resident import Resident
from allotment.tools.plan.demand import Demand, Waiting

_Test = Callable[[Resident], bool]


class Company:
    """Who wants whom. Answers are kept."""

    def __init__(self, demand: Demand) -> None:
        self._demand = demand
        self._tests: dict[int, tuple[_Test, ...]] = {}

    def may_help(self, pod: Waiting) -> bool:
        """Whether any other pod's coming could let this one onto a node."""
        return bool(pod.asked.affinity) or any(one.when_unsatisfiable == "DoNotSchedule" for one in pod.asked.spread)

    def is_wanted(self, newcomer: Waiting, by: Waiting) -> bool:
        """Whether the newcomer is one of those."""
        tests = self._tests.get(by.order)
        if tests is None:
            tests = self._tests[by.order] = self._tests_of(by)
        return any(test(newcomer.resident) for test in tests)

    def _tests_of(self, pod: Waiting) -> tuple[_Test, ...]:
        resident, namespaces = pod.resident, self._demand.namespaces
        found = [meant(neighbour.term, resident, namespaces) for neighbour in pod.asked.affinity]
        found += [_counts(constraint, resident) for constraint in pod.asked.spread]
        return tuple(found)


def _counts(constraint: TopologySpreadConstraint, resident: Resident) -> _Test:
    matches = matcher(with_pod_keys(constraint.label_selector, resident.labels, constraint.match_label_keys))
    return lambda other: other.namespace == resident.namespace and matches(other.labels)
