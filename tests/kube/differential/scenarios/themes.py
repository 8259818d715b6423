"""The themes of scenarios: each theme sets some of the settings and changes the generated objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from types import MappingProxyType
from typing import Final

from tests.kube.differential.scenarios.device_themes import counters, lists, readiness, same_pools, shares, taints
from tests.kube.differential.scenarios.generate import new_scenario as mixed
from tests.kube.differential.scenarios.generator import ScenarioGenerator
from tests.kube.differential.scenarios.pod_themes import admin, claims, extended, groups, neighbours, priorities
from tests.kube.differential.scenarios.scenario import Scenario

#: A mixture of everything first, then one theme each, in the order of the seeds.
THEMES: Final[Mapping[str, Callable[[ScenarioGenerator], Scenario]]] = MappingProxyType({
    "mixed": mixed, "claims": claims, "lists": lists, "counters": counters, "same-pools": same_pools,
    "shares": shares, "taints": taints, "admin": admin, "extended": extended, "neighbours": neighbours,
    "priorities": priorities, "groups": groups, "readiness": readiness,
})  # fmt: skip


def generate(random: Random, name: str, theme: str) -> Scenario:
    """A random scenario of a theme; the names of its objects start with ``name``."""
    return THEMES[theme](ScenarioGenerator(random, name))
