"""Locations of pod specs in objects of any kind."""

from __future__ import annotations

from textwrap import dedent

import pytest

from allotment.model.loading import load_text
from allotment.tools.views.pod_specs import PodSpecLocation, pod_specs


def specs(text: str) -> list[PodSpecLocation]:
    """The pod specs of a text with one document."""
    (document,) = load_text(dedent(text), "app.yaml").documents
    return list(pod_specs(document))


def parts(text: str) -> list[tuple[str, int]]:
    """The part and the replicas of each pod spec."""
    return [(spec.part, spec.replicas) for spec in specs(text)]


@pytest.mark.parametrize(
    ("head", "path", "replicas"),
    [
        ("apiVersion: v1\nkind: Pod\nspec: {}", ("spec",), 1),
        ("apiVersion: apps/v1\nkind: Deployment\nspec: {replicas: 3}", ("spec", "template", "spec"), 3),
        ("apiVersion: apps/v1\nkind: DaemonSet\nspec: {}", ("spec", "template", "spec"), 0),
        ("apiVersion: batch/v1\nkind: Job\nspec: {parallelism: 4, completions: 2}", ("spec", "template", "spec"), 2),
        (
            "apiVersion: batch/v1\nkind: CronJob\nspec: {jobTemplate: {spec: {parallelism: 4}}}",
            ("spec", "jobTemplate", "spec", "template", "spec"),
            4,
        ),
    ],
)
def test_a_built_in_kind_has_one_pod_spec(head: str, path: tuple[str, ...], replicas: int) -> None:
    assert specs(head) == [PodSpecLocation(path, replicas)]


def test_each_part_of_a_training_job_has_a_pod_spec() -> None:
    text = """
        apiVersion: kubeflow.org/v1
        kind: PyTorchJob
        spec:
          pytorchReplicaSpecs:
            Master:
              replicas: 1
              template: {spec: {containers: [{name: pytorch, image: i}]}}
            Worker:
              replicas: 3
              template: {spec: {containers: [{name: pytorch, image: i}]}}
        """
    assert parts(text) == [("Master", 1), ("Worker", 3)]
    assert specs(text)[1].path == ("spec", "pytorchReplicaSpecs", "Worker", "template", "spec")
    assert all(spec.custom for spec in specs(text))


def test_list_items_are_named_and_hosts_count_as_pods() -> None:
    text = """
        apiVersion: ray.io/v1
        kind: RayCluster
        spec:
          headGroupSpec:
            template: {spec: {containers: [{name: head, image: i}]}}
          workerGroupSpecs:
          - groupName: gpus
            replicas: 2
            numOfHosts: 4
            template: {spec: {containers: [{name: worker, image: i}]}}
          - replicas: 1
            template: {spec: {containers: [{name: worker, image: i}]}}
        """
    assert parts(text) == [("headGroupSpec", 1), ("gpus", 8), ("workerGroupSpecs[1]", 1)]


def test_a_volcano_job_is_a_third_party_kind() -> None:
    text = """
        apiVersion: batch.volcano.sh/v1alpha1
        kind: Job
        spec:
          tasks:
          - name: worker
            replicas: 2
            template: {spec: {containers: [{name: worker, image: i}]}}
        """
    assert parts(text) == [("worker", 2)]


def test_jobs_of_a_jobset_run_several_pods_each() -> None:
    text = """
        apiVersion: jobset.x-k8s.io/v1alpha2
        kind: JobSet
        spec:
          replicatedJobs:
          - name: workers
            replicas: 2
            template: {spec: {parallelism: 4, completions: 4, template: {spec: {containers: [{name: w, image: i}]}}}}
        """
    assert parts(text) == [("workers", 8)]


@pytest.mark.parametrize(
    ("leader", "counts"), [("leaderTemplate: {spec: {containers: [{name: l, image: i}]}}", [2, 6]), ("size: 4", [8])]
)
def test_a_group_counts_its_leader(leader: str, counts: list[int]) -> None:
    text = f"""
        apiVersion: leaderworkerset.x-k8s.io/v1
        kind: LeaderWorkerSet
        spec:
          replicas: 2
          leaderWorkerTemplate:
            {"size: 4" if "leader" in leader else "{}"}
            {leader}
            workerTemplate: {{spec: {{containers: [{{name: w, image: i}}]}}}}
        """.replace("            {}\n", "")
    assert [count for _, count in parts(text)] == counts


def test_the_nearest_replicas_field_counts() -> None:
    text = """
        apiVersion: serving.kserve.io/v1alpha2
        kind: LLMInferenceService
        spec:
          replicas: 3
          template: {containers: [{name: main, resources: {}}]}
          prefill:
            replicas: 2
            template: {containers: [{name: main, resources: {}}]}
        """
    assert parts(text) == [("", 3), ("prefill", 2)]


@pytest.mark.parametrize(
    "text",
    [
        "apiVersion: v1\nkind: ConfigMap\ndata: {containers: x}",
        "apiVersion: metrics.k8s.io/v1beta1\nkind: PodMetrics\ncontainers: [{name: a, usage: {cpu: 1}}]",
        "apiVersion: x.io/v1\nkind: X\nspec: {containers: []}",
        "apiVersion: x.io/v1\nkind: X\nstatus: {template: {spec: {containers: [{name: a, image: i}]}}}",
        "apiVersion: resource.k8s.io/v1\nkind: Pod\nspec: {containers: [{name: a, image: i}]}",
    ],
)
def test_objects_without_pods_have_no_pod_specs(text: str) -> None:
    assert specs(text) == []


def test_a_fragment_is_a_pod_spec() -> None:
    assert specs("containers: [{name: a}]") == [PodSpecLocation((), 1)]
