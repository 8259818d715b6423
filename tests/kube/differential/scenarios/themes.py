"""The themes of scenarios: each theme sets some of the settings and changes the generated objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from types import MappingProxyType
from typing import Final

from allotment.model.features import Features
from allotment.scheduler.release import scheduler_release
from tests.kube.differential.scenarios.device_fields import (
    compatibility,
    derived,
    fractions,
    node_resources,
    skipped_operations,
)
from tests.kube.differential.scenarios.device_themes import counters, lists, readiness, same_pools, shares, taints
from tests.kube.differential.scenarios.generate import new_scenario as mixed
from tests.kube.differential.scenarios.generator import ScenarioGenerator
from tests.kube.differential.scenarios.pod_themes import admin, claims, extended, groups, neighbours, priorities
from tests.kube.differential.scenarios.scenario import Scenario

#: A mixture of everything first, then one theme each.
THEMES: Final[Mapping[str, Callable[[ScenarioGenerator], Scenario]]] = MappingProxyType({
    "mixed": mixed, "claims": claims, "lists": lists, "counters": counters, "same-pools": same_pools,
    "shares": shares, "taints": taints, "admin": admin, "extended": extended, "neighbours": neighbours,
    "priorities": priorities, "groups": groups, "derived": derived, "compatibility": compatibility,
    "fractions": fractions, "skipped-operations": skipped_operations, "node-resources": node_resources,
    "readiness": readiness,
})  # fmt: skip
#: The feature gate that a theme needs.
_GATES: Final[Mapping[str, str]] = MappingProxyType({
    "derived": "DRADerivedAttributes", "compatibility": "DRADeviceCompatibilityGroups",
    "fractions": "DRAFractionalCapacityRange", "skipped-operations": "DRAOptionalNodeOperations",
    "node-resources": "DRANodeAllocatableResources",
})  # fmt: skip


def themes_of(features: Features) -> Sequence[str]:
    """The themes that two schedulers can decide with these features.

    With GenericWorkload (1.37), a group is scheduled as a whole by one scheduler, so two cannot decide about its pods.
    The node-allocatable resources of 1.36 have other fields.
    """
    without_groups = scheduler_release(features).schedules_groups
    return [
        theme
        for theme in THEMES
        if (theme not in _GATES or (features.since("1.37") and features.enabled(_GATES[theme])))
        and not (theme == "groups" and without_groups)
    ]


def generate(random: Random, name: str, theme: str) -> Scenario:
    """A random scenario of a theme; the names of its objects start with ``name``."""
    return THEMES[theme](ScenarioGenerator(random, name))
