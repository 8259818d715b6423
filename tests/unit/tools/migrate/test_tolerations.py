"""Tolerations that admission adds for extended resources are added to pods with claims."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from allotment.model.core import Taint
from allotment.model.loading import load_text
from tests.unit.tools.migrate.manifests import migrated, target, workload
from tests.unit.tools.migrate.trials import in_cluster, row, t4s

GPU = {"nvidia.com/gpu": 1}
GKE = {"cloud.google.com/gke-accelerator": "nvidia-tesla-t4"}
ADDED = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}


def tolerations(text: str) -> list[object]:
    spec = load_text(text, "app.yaml").documents[0].tree["spec"]["template"]["spec"]
    return list(spec.get("tolerations") or [])


def test_on_gke_admission_tolerates_the_taint_for_gpu_requests() -> None:
    migration = migrated(workload(limits=GPU, nodeSelector=GKE))
    assert tolerations(migration.texts["app.yaml"]) == [ADDED]
    assert any("Toleration nvidia.com/gpu" in note for note in migration.workloads[0].notes)


def test_the_toleration_is_added_to_existing_ones() -> None:
    own = {"key": "team", "operator": "Exists"}
    migration = migrated(workload(limits=GPU, nodeSelector=GKE, tolerations=[own]))
    assert tolerations(migration.texts["app.yaml"]) == [own, ADDED]


@pytest.mark.parametrize(
    "own", [{"operator": "Exists"}, {"key": "nvidia.com/gpu", "value": "present"}, {**ADDED, "effect": ""}]
)
def test_an_existing_toleration_suffices(own: dict[str, str]) -> None:
    migration = migrated(workload(limits=GPU, nodeSelector=GKE, tolerations=[own]))
    assert tolerations(migration.texts["app.yaml"]) == [own]


def test_an_unchanged_manifest_needs_no_toleration() -> None:
    assert not migrated(workload(limits=GPU, nodeSelector=GKE), to=target(strategy="class")).texts


def test_a_taint_on_a_cluster_node_has_the_same_effect() -> None:
    node = t4s("n1")
    tainted = replace(node, spec=replace(node.spec, taints=(Taint(key="nvidia.com/gpu", effect="NoSchedule"),)))
    migration = in_cluster(workload(limits=GPU), objects=[tainted], strategy="claims")
    assert tolerations(migration.texts["app.yaml"]) == [ADDED]
    compared = row(migration)
    assert (compared.fitted, compared.fit) == (1, 1)
    other = replace(node, spec=replace(node.spec, taints=(Taint(key="team", effect="NoSchedule"),)))
    assert tolerations(in_cluster(workload(limits=GPU), objects=[other], strategy="claims").texts["app.yaml"]) == []
