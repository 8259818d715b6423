"""Replay runs: small ones with a known outcome, and invariants of any run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allotment.tools.replay.experiment import find_policy
from allotment.tools.replay.policies import POLICIES, PlacementPolicy
from allotment.tools.replay.simulation import ReplayRun, run
from allotment.tools.replay.trace import TraceNode, TracePod
from allotment.tools.replay.workload import PodEvent, capacity_of, events_by_time, random_arrivals, workload_of


def pod(
    gpus: int, milli: int = 1000, cpu: int = 1000, memory_mib: int = 1024, models: tuple[str, ...] = (),
    created: float | None = None, deleted: float | None = None,
) -> TracePod:  # fmt: skip
    return TracePod("p", cpu, memory_mib, gpus, milli, models, created, deleted)


def node(gpus: int, cpu: int = 64_000, memory: int | None = 65_536, model: str = "A") -> TraceNode:
    return TraceNode("n", cpu, memory, gpus, model)


def named(name: str) -> PlacementPolicy:
    policy = find_policy(name)
    assert policy is not None
    return policy


def replay(pods: Sequence[TracePod], nodes: Sequence[TraceNode], policy: str, seed: int = 0) -> ReplayRun:
    workload = workload_of(pods)
    events = [PodEvent(number) for number in range(len(pods))]
    return run(workload, workload.shape_of, events, nodes, named(policy), seed)


def where(pods: Sequence[TracePod], nodes: Sequence[TraceNode], policy: str) -> list[int]:
    return [placement.node for placement in replay(pods, nodes, policy).placements]


def test_first_fit_takes_the_first_node() -> None:
    assert where([pod(1)] * 3, [node(2), node(8)], "first-fit") == [0, 0, 1]


def test_best_fit_takes_the_node_with_the_least_remaining_capacity() -> None:
    assert where([pod(1)] * 3, [node(8), node(2)], "best-fit") == [1, 1, 0]


def test_best_fit_takes_the_gpu_with_the_least_idle_capacity() -> None:
    found = replay([pod(1, 500), pod(1, 700), pod(1, 300)], [node(2)], "best-fit")
    gpus = [placement.gpus for placement in found.placements]
    assert gpus[2] == gpus[1]


def test_least_fragmentation_keeps_whole_gpus_for_pods_that_need_them() -> None:
    half, whole = pod(1, 500), pod(1)
    found = replay([half, half, whole], [node(2)], "fgd")
    assert found.placements[0].gpus == found.placements[1].gpus
    assert found.placements[2].node == 0


def test_lookahead_keeps_cpu_for_pods_that_need_it() -> None:
    small, large = pod(1, cpu=4_000), pod(1, cpu=30_000)
    # The first node has CPU for both large pods; small pods would block it. First-fit ignores that.
    nodes = [node(2, cpu=60_000), node(2, cpu=8_000)]
    arriving = [small, small, large, large]
    assert where(arriving, nodes, "lookahead") == [1, 1, 0, 0]
    assert where(arriving, nodes, "first-fit") == [0, 0, -1, -1]


def test_lookahead_keeps_a_model_for_pods_that_accept_no_other() -> None:
    any_model, model_a = pod(1), pod(1, models=("A",))
    nodes = [node(1, model="A"), node(1, model="B")]
    assert where([any_model, model_a], nodes, "lookahead") == [1, 0]


def test_a_pod_that_fits_no_node_is_skipped() -> None:
    found = replay([pod(4), pod(1)], [node(2)], "first-fit")
    assert [placement.node for placement in found.placements] == [-1, 0]
    assert (found.points[-1].arrived, found.points[-1].placed, found.points[-1].allocated) == (5000, 1000, 1000)


def test_unknown_memory_fits_every_pod() -> None:
    assert where([pod(1, memory_mib=10**9)], [node(1, memory=None)], "first-fit") == [0]


def test_points_are_at_equal_steps_of_requested_gpus() -> None:
    found = replay([pod(1)] * 5 + [pod(5)], [node(8), node(2)], "first-fit")
    assert [point.at for point in found.points][:3] == [0.0, 0.01, 0.02]
    assert [point.arrived for point in found.points if point.at in (0.1, 0.5, 0.51, 1.0)] == [1000, 5000, 10000, 10000]


def test_idle_gpus_that_no_pod_can_use_are_fragmented() -> None:
    # All pods request a whole GPU and 32 CPUs: after one is placed, the node has no CPU for another.
    found = replay([pod(1, cpu=32_000)], [node(2, cpu=40_000)], "first-fit")
    assert found.points[0].fragmented == 0
    assert found.points[-1].fragmented == 1000


def test_a_departing_pod_releases_its_capacity() -> None:
    pods = [pod(1, 600, created=0.0, deleted=10.0), pod(1, 600, created=5.0), pod(1, 600, created=10.0)]
    workload = workload_of(pods)
    found = run(workload, workload.shape_of, events_by_time(pods), [node(1)], named("first-fit"), 0)
    assert [placement.node for placement in found.placements] == [0, -1, 0]
    assert found.points[-1].allocated == 600


def test_events_by_time_have_departures_before_arrivals_and_end_with_the_last_arrival() -> None:
    times = [(0.0, 9.0), (9.0, 9.0), (None, None), (3.0, 99.0)]
    pods = [pod(1, created=created, deleted=deleted) for created, deleted in times]
    assert events_by_time(pods) == (PodEvent(0), PodEvent(2), PodEvent(3), PodEvent(0, arrives=False), PodEvent(1))


def test_random_arrivals_reach_the_requested_share_and_depend_only_on_the_seed() -> None:
    workload = workload_of([pod(1, 500), pod(2), pod(0, 0)])
    events, shape_of = random_arrivals(workload, 100_000, 1.3, 7)
    requested = sum(workload.shapes[number].amount for number in shape_of)
    assert 130_000 <= requested < 132_000
    assert len(events) == len(shape_of)
    assert random_arrivals(workload, 100_000, 1.3, 7) == (events, shape_of)
    assert random_arrivals(workload, 100_000, 1.3, 8) != (events, shape_of)
    assert Counter(shape_of)[2] > 1  # pods without GPUs are repeated too


def test_every_pod_of_the_trace_arrives_even_if_they_request_more() -> None:
    workload = workload_of([pod(1)] * 9)
    assert len(random_arrivals(workload, 1000, 1.3, 0)[0]) == 9


_PODS = st.lists(
    st.builds(
        lambda form, cpu, memory, models, start, stays, limit: TracePod(
            "p", cpu, memory, form[0], form[1], models, float(start), None if stays is None else float(start + stays),
            "app" if limit else "", limit,
        ),
        st.sampled_from([(0, 0), (1, 1000), (1, 200), (1, 450), (1, 810), (2, 1000), (4, 1000)]),
        st.integers(0, 12_000), st.integers(0, 12_000), st.sampled_from([(), ("A",), ("A", "B")]),
        st.integers(0, 50), st.none() | st.integers(0, 30), st.sampled_from([None, None, 2]),
    ),
    min_size=1, max_size=30,
)  # fmt: skip
_NODES = st.lists(
    st.builds(
        node, st.integers(0, 4), st.integers(0, 32_000), st.none() | st.integers(0, 32_000), st.sampled_from(["A", "B"])
    ),
    min_size=1, max_size=4,
)  # fmt: skip


@settings(max_examples=60)
@given(pods=_PODS, nodes=_NODES, policy=st.sampled_from(POLICIES), seed=st.integers(0, 3), times=st.booleans())
def test_capacity_is_never_exceeded_and_always_released(
    pods: list[TracePod], nodes: list[TraceNode], policy: PlacementPolicy, seed: int, times: bool
) -> None:
    workload = workload_of(pods)
    events = events_by_time(pods) if times else [PodEvent(number) for number in range(len(pods))]
    found = run(workload, workload.shape_of, events, nodes, policy, seed)
    cpu = [each.cpu_milli for each in nodes]
    memory = [each.memory_mib for each in nodes]
    gpus = [[1000] * each.gpus for each in nodes]
    apps: Counter[int] = Counter()
    allocated = 0
    for number, arrives in events:
        trace_pod, placement = pods[number], found.placements[number]
        if placement.node < 0:
            continue
        sign = 1 if arrives else -1
        at = placement.node
        cpu[at] -= sign * trace_pod.cpu_milli
        left = memory[at]
        if left is not None:
            memory[at] = left - sign * trace_pod.memory_mib
        assert len(set(placement.gpus)) == trace_pod.gpus
        for gpu in placement.gpus:
            gpus[at][gpu] -= sign * trace_pod.gpu_milli
        apps[at] += sign * (trace_pod.per_node is not None)
        allocated += sign * trace_pod.gpu_total
        assert cpu[at] >= 0
        assert (memory[at] or 0) >= 0
        assert all(0 <= gpu <= 1000 for gpu in gpus[at])
        assert apps[at] <= 2
        assert not trace_pod.gpus or not trace_pod.models or nodes[at].model in trace_pod.models
    if found.points and capacity_of(nodes):
        last = found.points[-1]
        assert 0 <= last.fragmented <= found.capacity - last.allocated + 1e-6
        if times:
            assert last.allocated == allocated
    assert run(workload, workload.shape_of, events, nodes, policy, seed) == found


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_a_pod_is_placed_whenever_it_fits(policy: PlacementPolicy) -> None:
    pods = [pod(1, 300)] * 5 + [pod(2)] + [pod(0, 0)]
    workload = workload_of(pods)
    found = run(workload, workload.shape_of, [PodEvent(number) for number in range(7)], [node(4)], policy, 1)
    placed = [placement.node for placement in found.placements]
    # The shares may be on four GPUs, so that the large pod may not fit; the others always fit.
    assert placed[:5] == [0] * 5
    assert placed[6] == 0
