"""A few random plans, carried out by Kubernetes' own programs; ``python -m tests.kube.plans_on_kubernetes`` runs
hundreds.

kube-apiserver, etcd and kube-scheduler are unmodified.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from allotment.fleet.catalog import catalog
from bench.real_kube import plane
from tests.kube.plans_on_kubernetes import Opening, PlanOutcome, carry_out, connect
from tests.storm.demands import scenario_of


@pytest.fixture(scope="module")
def kubeconfig(paths: dict[str, str]) -> Iterator[Path]:
    with plane(paths, controllers="") as running:
        yield running.kubeconfig


def tried(kubeconfig: Path, words: str, opening: Opening) -> PlanOutcome:
    async def run() -> PlanOutcome:
        async with connect(kubeconfig) as client:
            return await carry_out(client, scenario_of(words, catalog()), opening=opening, quiet=300)

    return asyncio.run(run())


@pytest.mark.parametrize("words", ["kube/8", "kube/17", "kube/80", "kube/85", "wide-kube/22"])
def test_every_planned_pod_is_bound_where_it_was_planned(kubeconfig: Path, words: str) -> None:
    done = tried(kubeconfig, words, "gated")
    assert done.planned > 0
    assert done.unbound == {}
    assert done.elsewhere == {}


@pytest.mark.parametrize("words", ["kube/20", "kube/24", "kube/47", "kube/51", "kube/55", "kube/91"])
def test_reserved_nodes_run_exactly_their_planned_pods(kubeconfig: Path, words: str) -> None:
    """These fail when nodes become schedulable for all pods, one right after the other."""
    done = tried(kubeconfig, words, "reserved")
    assert done.planned > 0
    assert done.unbound == {}
    assert done.elsewhere == {}
