"""What nodes are worth: to the next pod (fragmentation), and in the end (potential)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.tools.replay.fragmentation import UsableCapacity
from allotment.tools.replay.node_states import GpuPatterns, Ints
from allotment.tools.replay.potential import Potential
from allotment.tools.replay.trace import TracePod
from allotment.tools.replay.workload import PodShape, workload_of

WHOLE = PodShape(cpu=8_000, memory=1, gpus=1, milli=1000)
HALF = PodShape(cpu=2_000, memory=1, gpus=1, milli=500)


def one(value: int) -> Ints:
    return np.array([value], np.int64)


def usable(shapes: dict[PodShape, float], left: tuple[int, ...], cpu: int = 64_000, model: str = "A") -> float:
    patterns = GpuPatterns(ordered=False)
    number = patterns.number(left)
    mean = UsableCapacity(tuple(shapes), tuple(shapes.values()), (model,), patterns)
    return float(mean(one(0), one(cpu), one(1 << 20), one(number))[0])


def test_what_pods_can_use_is_the_mean_over_them() -> None:
    # A whole GPU can have the one that is whole; half a GPU both.
    assert usable({WHOLE: 0.5, HALF: 0.5}, (600, 1000)) == 0.5 * 1000 + 0.5 * 1600


def test_where_a_pod_does_not_fit_all_is_useless_to_it() -> None:
    assert usable({WHOLE: 1.0}, (1000, 1000), cpu=4_000) == 0
    assert usable({WHOLE._replace(gpus=3): 1.0}, (1000, 1000)) == 0
    assert usable({WHOLE._replace(models=frozenset({"B"})): 1.0}, (1000, 1000)) == 0


def test_pods_without_gpus_use_none() -> None:
    assert usable({PodShape(1, 1, 0, 0): 0.5, WHOLE: 0.5}, (1000,)) == 500


def potential(pods: list[TracePod], left: tuple[int, ...], cpu: int) -> float:
    patterns = GpuPatterns(ordered=False)
    number = patterns.number(left)
    return float(Potential(workload_of(pods), ("A",), patterns)(one(0), one(cpu), one(number))[0])


PODS = [TracePod("p", 8_000, 1, 1, 1000)] * 3 + [TracePod("s", 2_000, 1, 1, 500)]


def test_idle_gpus_without_cpu_are_worth_nothing() -> None:
    assert potential(PODS, (1000,) * 8, 0) == 0


def test_cpu_for_one_pod_makes_eight_idle_gpus_worth_about_one() -> None:
    only = [TracePod("p", 8_000, 1, 1, 1000)]
    assert potential(only, (1000,) * 8, 8_000) == pytest.approx(1000, rel=0.15)
    assert potential(only, (1000,) * 8, 80_000) == pytest.approx(8000, rel=0.05)


def test_a_piece_that_no_pod_takes_is_worth_nothing() -> None:
    assert potential(PODS, (490,), 64_000) == 0
    assert potential(PODS, (500,), 64_000) > 450


@given(
    left=st.lists(st.integers(0, 100).map(lambda n: 10 * n), max_size=8),
    cpu=st.integers(0, 100_000),
    more=st.integers(0, 50_000),
)
def test_more_cpu_is_never_worth_less_and_no_node_more_than_its_idle_gpus(left: list[int], cpu: int, more: int) -> None:
    worth = potential(PODS, tuple(left), cpu)
    assert -1e-6 <= worth <= sum(left) + 1e-6
    assert potential(PODS, tuple(left), cpu + more) >= worth - 1e-6
