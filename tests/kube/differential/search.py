"""Runs scenarios by seed until the time is over, and finds the smallest one in which a difference remains."""

from __future__ import annotations

import copy
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any, Final, NamedTuple

from allotment.engine.refusal import NO_NODES
from tests.kube.differential.differences import Difference
from tests.kube.differential.runner import ScenarioRunner
from tests.kube.differential.scenarios.scenario import Scenario
from tests.kube.differential.scenarios.themes import generate, themes_of
from tests.kube.flows import FEATURES

#: The name prefix of the objects of a generated scenario.
_NAME: Final = "w00000"
#: How often a scenario with a difference runs again: a defect recurs every time, in contrast to an object that a
#: scheduler on a slow machine had not received yet.
_REPETITIONS: Final = 2


class Search(NamedTuple):
    """``found``: the differences by seed; ``themes``: the counts of each theme."""

    differences: dict[int, list[Difference]]
    themes: dict[str, Counter[str]]


def theme_of(seed: int) -> str:
    """The themes in rotation."""
    themes = themes_of(FEATURES)
    return themes[seed % len(themes)]


def scenario_of(seed: int, theme: str = "") -> Scenario:
    """The scenario of a seed, with its own or another theme."""
    return generate(Random(seed), _NAME, theme or theme_of(seed))


async def search(
    runner: ScenarioRunner, seeds: Sequence[int] | range, seconds: float, say: Callable[[str], None], theme: str = ""
) -> Search:
    """Run scenarios until the time is over, of one theme or of all."""
    latest = time.monotonic() + seconds
    search = Search({}, {})
    for seed in seeds:
        if time.monotonic() > latest:
            break
        before, about = runner.counts.copy(), theme or theme_of(seed)
        scenario = scenario_of(seed, about)
        differences = await runner.run(rename(scenario, _NAME, f"w{seed % 100000:05d}"))
        search.themes.setdefault(about, Counter()).update(runner.counts - before)
        for again in range(_REPETITIONS):
            if not differences:
                break
            found = await runner.run(rename(scenario, _NAME, f"w{seed % 100000:05d}{again}"))
            same = {(item.kind, item.pod.rpartition("-")[2]) for item in found}
            differences = [
                difference for difference in differences if (difference.kind, difference.pod.rpartition("-")[2]) in same
            ]
        if differences:
            search.differences[seed] = differences
        for difference in differences:
            say(f"seed {seed}, {about}, {difference.pod}: {difference.kind}\n    {difference.detail}")
    return search


def reductions(scenario: Scenario) -> Iterator[Scenario]:
    """The variants of a scenario with one part removed, large parts first."""
    tree = [scenario.cluster, scenario.pods]
    for path in sorted(_removable(tree), key=len):
        less = copy.deepcopy(tree)
        *options, last = path
        at: Any = less
        for step in options:
            at = at[step]
        del at[last]
        if less[1]:
            yield Scenario(*less)


#: Maps whose entries can be removed.
_MAPS: Final = {"attributes", "capacity", "counters", "requests", "labels"}
#: Fields that can be removed.
_FIELDS: Final = {
    "taints", "tolerations", "selectors", "constraints", "capacity", "count", "allocationMode", "nodeSelector",
    "affinity", "topologySpreadConstraints", "bindsToNode", "requestPolicy", "adminAccess", "extendedResourceName",
    "allowMultipleAllocations", "consumesCounters", "sharedCounters", "unschedulable", "limits", "claims",
    "derivedAttributes", "compatibilityGroups", "skipNodeOperations", "nodeAllocatableResources", "declaredFeatures",
}  # fmt: skip


def _removable(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(tree, list):
        for number, value in enumerate(tree):
            if path:
                yield (*path, number)
            yield from _removable(value, (*path, number))
    elif isinstance(tree, dict):
        for key, value in tree.items():
            if (path[-1] in _MAPS or key in _FIELDS) and key not in ("scenario", "stays"):
                yield (*path, key)
            yield from _removable(value, (*path, key))


def rename(scenario: Scenario, old: str, new: str) -> Scenario:
    """The same scenario under another name, so that no program confuses its objects with the earlier ones."""
    return Scenario(*json.loads(json.dumps(list(scenario)).replace(old, new)))


async def shrink(runner: ScenarioRunner, scenario: Scenario, kind: str, seconds: float) -> tuple[Scenario, Difference]:
    """The smallest scenario found in a time with such a difference. Raises LookupError if the difference does not
    recur."""
    latest = time.monotonic() + seconds
    number = 0

    async def differs(candidate: Scenario) -> Difference | None:
        nonlocal number
        number += 1
        found = await runner.run(rename(candidate, _NAME, f"w{number:05d}s"))
        return next((item for item in found if item.kind == kind and NO_NODES not in item.detail), None)

    last = await differs(scenario)
    if last is None:
        raise LookupError(f"{kind}: did not recur")
    progress = True
    while progress and time.monotonic() < latest:
        progress = False
        for less in reductions(scenario):
            if time.monotonic() > latest:
                break
            found = await differs(less)
            if found is not None:
                scenario, last, progress = less, found, True
                break
    return scenario, last
