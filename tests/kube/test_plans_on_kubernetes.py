"""A few random plans, kept by Kubernetes' own programs; ``python -m tests.kube.plans_on_kubernetes`` tries hundreds.

kube-apiserver, etcd and kube-scheduler are unmodified.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from allotment.fleet.catalog import catalog
from bench.real_kube import plane
from tests.kube.plans_on_kubernetes import Kept, Opening, connected, kept
from tests.storm.demands import scenario_of


@pytest.fixture(scope="module")
def kubeconfig(paths: dict[str, str]) -> Iterator[Path]:
    with plane(paths, controllers="") as running:
        yield running.kubeconfig


def tried(kubeconfig: Path, words: str, opening: Opening) -> Kept:
    async def one() -> Kept:
        async with connected(kubeconfig) as client:
            return await kept(client, scenario_of(words, catalog()), opening=opening, quiet=300)

    return asyncio.run(one())


@pytest.mark.parametrize("words", ["kube/8", "kube/17", "kube/80", "kube/85", "wide-kube/22"])
def test_every_planned_pod_is_bound_where_it_was_planned(kubeconfig: Path, words: str) -> None:
    done = tried(kubeconfig, words, "gated")
    assert done.planned > 0
    assert done.left == {}
    assert done.elsewhere == {}


@pytest.mark.parametrize("words", ["kube/20", "kube/24", "kube/47", "kube/51", "kube/55", "kube/91"])
def test_nodes_that_open_for_those_they_were_bought_for_keep_every_promise(kubeconfig: Path, words: str) -> None:
    """These fail when nodes open for everybody, one right after the other."""
    done = tried(kubeconfig, words, "reserved")
    assert done.planned > 0
    assert done.left == {}
    assert done.elsewhere == {}
