"""Runs of a published trace come out near the published figures, and ours below them."""

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
def question(shared: Callable[[str], Path]) -> Experiment:
    pods = read_pods(shared("traces/openb_pod_list_default.csv").read_text())
    nodes = read_nodes(shared("traces/openb_node_list_gpu_node.csv").read_text())
    return Experiment(pods, nodes, share=1.0)


def unallocated(question: Experiment, name: str, seed: int = 42) -> float:
    policy = find_policy(name)
    assert policy is not None
    return 100 - next(mark.allocated for mark in run_experiment(question, policy, seed) if mark.at == FULL_DEMAND)


@pytest.fixture(scope="module")
def published(shared: Callable[[str], Path]) -> dict[str, float]:
    with shared("traces/fgd_anchor.csv").open() as file:
        return {
            row["policy"]: float(row["unalloc_pct_median"])
            for row in csv.DictReader(file)
            if row["workload"] == "openb_pod_list_default" and float(row["arrived_pct"]) == FULL_DEMAND
        }


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_known_policy_comes_out_near_its_published_figure(
    question: Experiment, published: dict[str, float], name: str
) -> None:
    assert unallocated(question, name) == pytest.approx(published[PUBLISHED[name]], abs=0.7)


def test_ours_leaves_less_than_the_best_published(question: Experiment, published: dict[str, float]) -> None:
    assert unallocated(question, "lookahead") < published["FGD"] - 0.4
