"""The value of nodes: usable capacity for the next pod (fragmentation), and potential for future pods."""

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


def row(value: int) -> Ints:
    return np.array([value], np.int64)


def usable(shapes: dict[PodShape, float], left: tuple[int, ...], cpu: int = 64_000, model: str = "A") -> float:
    patterns = GpuPatterns(ordered=False)
    number = patterns.number(left)
    mean = UsableCapacity(tuple(shapes), tuple(shapes.values()), (model,), patterns)
    return float(mean(row(0), row(cpu), row(1 << 20), row(number))[0])


def test_usable_capacity_is_the_weighted_mean_over_shapes() -> None:
    # A request for a whole GPU can use the idle one, a request for half a GPU both.
    assert usable({WHOLE: 0.5, HALF: 0.5}, (600, 1000)) == 0.5 * 1000 + 0.5 * 1600


def test_a_node_that_a_pod_does_not_fit_has_no_usable_capacity() -> None:
    assert usable({WHOLE: 1.0}, (1000, 1000), cpu=4_000) == 0
    assert usable({WHOLE._replace(gpus=3): 1.0}, (1000, 1000)) == 0
    assert usable({WHOLE._replace(models=frozenset({"B"})): 1.0}, (1000, 1000)) == 0


def test_pods_without_gpus_use_no_gpu_capacity() -> None:
    assert usable({PodShape(1, 1, 0, 0): 0.5, WHOLE: 0.5}, (1000,)) == 500


def potential(pods: list[TracePod], left: tuple[int, ...], cpu: int) -> float:
    patterns = GpuPatterns(ordered=False)
    number = patterns.number(left)
    return float(Potential(workload_of(pods), ("A",), patterns)(row(0), row(cpu), row(number))[0])


PODS = [TracePod("p", 8_000, 1, 1, 1000)] * 3 + [TracePod("s", 2_000, 1, 1, 500)]


def test_idle_gpus_without_cpu_have_no_potential() -> None:
    assert potential(PODS, (1000,) * 8, 0) == 0


def test_eight_idle_gpus_with_cpu_for_one_pod_have_the_potential_of_one_gpu() -> None:
    only = [TracePod("p", 8_000, 1, 1, 1000)]
    assert potential(only, (1000,) * 8, 8_000) == pytest.approx(1000, rel=0.15)
    assert potential(only, (1000,) * 8, 80_000) == pytest.approx(8000, rel=0.05)


def test_an_idle_part_that_no_pod_can_use_has_no_potential() -> None:
    assert potential(PODS, (490,), 64_000) == 0
    assert potential(PODS, (500,), 64_000) > 450


@given(
    left=st.lists(st.integers(0, 100).map(lambda n: 10 * n), max_size=8),
    cpu=st.integers(0, 100_000),
    more=st.integers(0, 50_000),
)
def test_potential_grows_with_cpu_and_never_exceeds_the_idle_gpus(left: list[int], cpu: int, more: int) -> None:
    worth = potential(PODS, tuple(left), cpu)
    assert -1e-6 <= worth <= sum(left) + 1e-6
    assert potential(PODS, tuple(left), cpu + more) >= worth - 1e-6
