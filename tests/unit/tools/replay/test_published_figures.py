"""Results for a published trace are close to the published figures, and lookahead improves on them."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import pytest

from allotment.tools.replay.experiment import Experiment, find_policy, run_experiment
from allotment.tools.replay.report import FULL_DEMAND
from allotment.tools.replay.trace import read_nodes, read_pods

PUBLISHED = {"dot-product": "DotProd", "best-fit": "BestFit", "fgd": "FGD"}


@pytest.fixture(scope="module")
def experiment(shared: Callable[[str], Path]) -> Experiment:
    pods = read_pods(shared("traces/openb_pod_list_default.csv").read_text())
    nodes = read_nodes(shared("traces/openb_node_list_gpu_node.csv").read_text())
    return Experiment(pods, nodes, share=1.0)


def unallocated(experiment: Experiment, name: str, seed: int = 42) -> float:
    policy = find_policy(name)
    assert policy is not None
    return 100 - next(point.allocated for point in run_experiment(experiment, policy, seed) if point.at == FULL_DEMAND)


@pytest.fixture(scope="module")
def published(shared: Callable[[str], Path]) -> dict[str, float]:
    with shared("traces/fgd_anchor.csv").open() as file:
        return {
            row["policy"]: float(row["unalloc_pct_median"])
            for row in csv.DictReader(file)
            if row["workload"] == "openb_pod_list_default" and float(row["arrived_pct"]) == FULL_DEMAND
        }


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_policy_is_close_to_its_published_figure(
    experiment: Experiment, published: dict[str, float], name: str
) -> None:
    assert unallocated(experiment, name) == pytest.approx(published[PUBLISHED[name]], abs=0.7)


def test_lookahead_leaves_less_unallocated_than_the_best_published_policy(
    experiment: Experiment, published: dict[str, float]
) -> None:
    assert unallocated(experiment, "lookahead") < published["FGD"] - 0.4
