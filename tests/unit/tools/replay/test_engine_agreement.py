"""The simulation with first-fit chooses the same node and devices for each pod as the filters and the engine."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from allotment.tools.replay.manifests import name_of
from allotment.tools.replay.policies.first_fit import FIRST_FIT
from allotment.tools.replay.simulation import run
from allotment.tools.replay.trace import TraceNode, TracePod, read_nodes, read_pods
from allotment.tools.replay.workload import PodEvent, workload_of
from tests.unit.tools.replay.engine_placement import first_fit


def simulated(pods: Sequence[TracePod], nodes: Sequence[TraceNode]) -> list[tuple[str, tuple[str, ...]]]:
    workload = workload_of(pods)
    events = [PodEvent(number) for number in range(len(pods))]
    placements = run(workload, workload.shape_of, events, nodes, FIRST_FIT, 0).placements
    return [
        (name_of(nodes[placement.node]), tuple(sorted(f"gpu-{gpu}" for gpu in placement.gpus)))
        if placement.node >= 0
        else ("", ())
        for placement in placements
    ]


def test_a_sample_of_the_trace_is_placed_as_by_the_engine(shared: Callable[[str], Path]) -> None:
    pods = read_pods(shared("traces/openb_pod_list_gpuspec25.csv").read_text())
    nodes = read_nodes(shared("traces/openb_node_list_gpu_node.csv").read_text())
    few = random.Random(5).sample(nodes, 40)
    some = random.Random(7).sample(pods, 500)
    found = simulated(some, few)
    assert found == first_fit(some, few)
    assert sum(1 for node, _ in found if not node) > 50  # some do not fit, so that rejections are compared too


def test_limits_per_node_are_respected_as_by_the_engine(shared: Callable[[str], Path]) -> None:
    pods = read_pods(shared("traces/dlrm2025_apps_even.csv").read_text())
    limited = [pod for pod in pods if pod.per_node in (2, 4)][:120]
    nodes = [TraceNode(f"n{n}", 1_000_000, 1 << 23, 8, "any") for n in range(12)]
    found = simulated(limited, nodes)
    assert found == first_fit(limited, nodes)
    free = [replace(pod, app="", per_node=None) for pod in limited]
    assert found != simulated(free, nodes)  # the limits matter here


_MODELS = ("A", "B")
_PODS = st.builds(
    lambda cpu, memory, form, models, per_node: TracePod(
        name="any", cpu_milli=cpu * 500, memory_mib=memory * 512, gpus=form[0], gpu_milli=form[1], models=models,
        app="app" if per_node else "", per_node=per_node,
    ),
    st.integers(0, 8),
    st.integers(0, 8),
    st.sampled_from([(0, 0), (1, 1000), (1, 300), (1, 500), (1, 810), (2, 1000), (3, 1000)]),
    st.sets(st.sampled_from(_MODELS)).map(lambda models: tuple(sorted(models))),
    st.sampled_from([None, None, None, 1, 2]),
)  # fmt: skip
_NODES = st.lists(
    st.builds(
        lambda cpu, memory, gpus, model: (cpu * 1000, memory and memory * 1024, gpus, model),
        st.integers(1, 16), st.none() | st.integers(1, 16), st.integers(0, 4), st.sampled_from(_MODELS),
    ),
    min_size=1, max_size=4,
).map(lambda rows: [TraceNode(f"n{n}", *row) for n, row in enumerate(rows)])  # fmt: skip


@settings(max_examples=40)
@given(pods=st.lists(_PODS, min_size=1, max_size=20), nodes=_NODES)
def test_random_pods_on_random_nodes_are_placed_as_by_the_engine(pods: list[TracePod], nodes: list[TraceNode]) -> None:
    assert simulated(pods, nodes) == first_fit(pods, nodes)
