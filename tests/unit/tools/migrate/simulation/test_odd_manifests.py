"""Manifests with arbitrary values: each is simulated or reported, without a crash."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from allotment.fleet import cluster_of, parse_fleet
from allotment.model.features import Features
from allotment.model.loading import load_text
from allotment.tools.migrate.rollout.file_layout import file_paths
from allotment.tools.migrate.rollout.runbook import runbook
from allotment.tools.migrate.run import migrate
from allotment.tools.migrate.sections import sections_of
from allotment.tools.migrate.simulation.comparison import compare
from allotment.tools.migrate.simulation.expected_slices import with_expected
from allotment.tools.migrate.target import MigrationStrategy, Target
from tests.unit.tools.migrate.manifests import target
from tests.unit.tools.migrate.test_odd_manifests import odd
from tests.unit.tools.migrate.trials import node, running, t4s


def on(fleet: str, kube: str = "1.36", strategy: MigrationStrategy = "auto") -> Target:
    cluster = cluster_of(parse_fleet([fleet]), kube)
    return Target(
        kube=kube, features=Features(kube=kube), strategy=strategy, known=True, nodes=cluster.nodes,
        slices=cluster.slices,
        classes=cluster.classes, objects=(*cluster.nodes, *cluster.slices, *cluster.classes), fleet=(fleet,),
    )  # fmt: skip


NODES = (t4s("n1"), t4s("n2", shared=4), node("n3", gpu_intel_com_i915=2))
PODS = (running("other", "n1", nvidia_com_gpu=1),)
TARGETS = (
    target(),
    on("dgx-a100-40gb/static-mig=1g.5gb:7,t4-4x-pcie,l4/shared"),
    on("mi300x-8x-oam/cpx,dgx-a100-40gb/dynamic-mig", strategy="claims"),
    on("t4-4x-pcie", "1.35"),
    with_expected(
        Target(kube="1.36", features=Features(kube="1.36"), known=True, nodes=NODES, objects=(*NODES, *PODS))
    ),
    Target(kube="1.30", features=None),
)


@given(odd(), st.sampled_from(TARGETS))
def test_any_manifest_is_simulated_with_consistent_numbers(text: str, to: Target) -> None:
    migration = migrate(load_text(text, "a.yaml").documents, to)
    trial = compare(migration)
    sections = sections_of(migration, trial)
    page = runbook(migration, trial, file_paths({file: file for file in migration.sources}, migration.sources))
    assert page
    assert len({section.title for section in sections}) == len(sections)
    for compared in trial.workloads if trial is not None else ():
        assert 0 <= compared.fit <= compared.pods
        assert 0 <= compared.fitted <= compared.pods
        assert len(compared.lost) <= compared.fitted
        assert (
            bool(compared.reason) == (compared.fit < compared.pods)
            or compared.untried
            or compared.pods > compared.fitted
        )
