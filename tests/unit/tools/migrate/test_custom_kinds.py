"""Third-party kinds, and objects without a pod template."""

from __future__ import annotations

from textwrap import dedent

import pytest

from allotment.tools.migrate.run import migrate
from allotment.tools.migrate.target import Target
from tests.unit.tools.migrate.manifests import documents, migrated, only, target
from tests.unit.tools.migrate.trials import on_fleet, row, tried

TRAINING = dedent("""\
    apiVersion: kubeflow.org/v1
    kind: PyTorchJob
    metadata: {name: bert, namespace: ml}
    spec:
      pytorchReplicaSpecs:
        Master:
          replicas: 1
          template:
            spec:
              containers:
              - name: pytorch
                image: registry.example/bert:1
                resources:
                  limits:
                    nvidia.com/gpu: 1  # the first one
        Worker:
          replicas: 3
          template:
            spec:
              nodeSelector: {nvidia.com/gpu.product: Tesla-T4}
              containers:
              - name: pytorch
                image: registry.example/bert:1
                resources:
                  limits:
                    nvidia.com/gpu: 2
    """)
RAY = dedent("""\
    apiVersion: ray.io/v1
    kind: RayCluster
    metadata: {name: ray}
    spec:
      workerGroupSpecs:
      - groupName: gpus
        replicas: 1
        template:
          spec:
            containers:
            - {name: worker, image: i, resources: {limits: {nvidia.com/gpu: 1}}}
    """)
SERVICE = dedent("""\
    apiVersion: serving.kserve.io/v1beta1
    kind: InferenceService
    metadata: {name: llama}
    spec:
      predictor:
        model:
          modelFormat: {name: huggingface}
          resources: {limits: {RESOURCE: 1}}
    """)


def test_a_class_serves_whole_gpus_of_any_kind_without_a_change() -> None:
    migration = migrated(TRAINING)
    assert [workload_.subject for workload_ in migration.workloads] == [
        "PyTorchJob ml/bert (Master)",
        "PyTorchJob ml/bert (Worker)",
    ]
    assert [workload_.decision.outcome for workload_ in migration.workloads] == ["class", "class"]
    assert [workload_.line for workload_ in migration.workloads] == [9, 19]
    assert [workload_.replicas for workload_ in migration.workloads] == [1, 3]
    assert not migration.texts


def test_strategy_claims_writes_claims_to_custom_kinds() -> None:
    migration = migrated(TRAINING, to=target(strategy="claims"))
    assert [workload_.claim_name for workload_ in migration.workloads] == ["bert-master-gpu", "bert-worker-gpu"]
    text = migration.texts["app.yaml"]
    assert "resourceClaimTemplateName: bert-worker-gpu" in text
    assert "nvidia.com/gpu: 1" not in text.partition("---")[0]
    assert "# the first one" in text
    assert all("is a custom resource" in workload_.notes[0] for workload_ in migration.workloads)


def test_equal_parts_of_an_object_share_a_template_named_after_it() -> None:
    equal = TRAINING.replace("nvidia.com/gpu: 2", "nvidia.com/gpu: 1").replace("nodeSelector", "annotations")
    migration = migrated(equal, to=target(strategy="claims"))
    assert [workload_.claim_name for workload_ in migration.workloads] == ["bert-gpu", "bert-gpu"]
    assert len(migration.new_objects) == 1


@pytest.mark.parametrize("strategy", ["auto", "claims"])
def test_pods_of_custom_kinds_are_simulated(strategy: str) -> None:
    migration = on_fleet(TRAINING, fleet="t4-4x-pcie:2", strategy="claims" if strategy == "claims" else "auto")
    for part, pods in (("(Master)", 1), ("(Worker)", 3)):
        compared = row(migration, part)
        assert (compared.pods, compared.fitted, compared.fit, compared.changed) == (pods, pods, pods, ())


def test_the_number_of_gpus_must_be_configured_for_ray() -> None:
    assert any("num-gpus" in note for note in only(RAY, to=target(strategy="claims")).notes)
    assert only(RAY).notes == ()


def test_a_volcano_job_is_not_deleted_like_a_kubernetes_job() -> None:
    text = RAY.replace("ray.io/v1", "batch.volcano.sh/v1alpha1").replace("RayCluster", "Job")
    workload_ = only(text, to=target(strategy="claims"))
    assert workload_.custom
    assert not any("immutable" in note or "cannot change" in note for note in workload_.notes)


@pytest.mark.parametrize(
    ("resource", "to", "outcome"),
    [
        ("nvidia.com/gpu", target(), "class"),
        ("nvidia.com/mig-1g.5gb", target(), "class"),
        ("nvidia.com/gpu", target(strategy="claims"), "class"),
        ("nvidia.com/gpu", target("1.35"), "leave"),
        ("nvidia.com/gpu.shared", target(shares=4), "cannot"),
    ],
)
def test_without_a_pod_template_only_a_class_can_serve(resource: str, to: Target, outcome: str) -> None:
    workload_ = only(SERVICE.replace("RESOURCE", resource), to=to)
    assert (workload_.subject, workload_.decision.outcome) == (
        "InferenceService default/llama (predictor.model)",
        outcome,
    )


def test_chart_values_are_reported() -> None:
    workload_ = only("server:\n  resources:\n    limits: {nvidia.com/gpu: 1}\n")
    assert workload_.subject == "Values (server)"
    assert "a chart's values" in workload_.decision.reason


def test_quotas_and_node_pools_request_nothing() -> None:
    texts = (
        "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: q}\nspec: {hard: {requests.nvidia.com/gpu: 4}}\n",
        "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: p}\nspec: {limits: {nvidia.com/gpu: 8}}\n",
    )
    assert migrated(*texts).workloads == ()


def test_amounts_that_are_not_integers_cannot_be_migrated() -> None:
    workload_ = only(RAY.replace("gpu: 1", 'gpu: "${GPUS}"'))
    assert workload_.decision.outcome == "cannot"
    assert "nvidia.com/gpu: ${GPUS}" in workload_.decision.reason
    assert tried(on_fleet(RAY.replace("gpu: 1", 'gpu: "${GPUS}"'), fleet="t4")).workloads[0].untried


def test_an_unknown_resource_is_reported() -> None:
    workload_ = only(RAY.replace("nvidia.com/gpu: 1", "gpu.intel.com/dxg: 1"))
    assert workload_.decision.outcome == "leave"
    assert "gpu.intel.com/dxg" in workload_.decision.reason


def test_a_list_of_lists_is_ignored() -> None:
    assert migrate(documents("apiVersion: x.io/v1\nkind: X\nspec: {a: [[{resources: 1}]]}\n"), target()).workloads == ()
