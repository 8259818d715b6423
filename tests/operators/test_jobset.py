"""JobSet: its controllers and webhooks on a lab."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

import allotment
from allotment.lab.manifests import NotApplied
from allotment.model.trees import Tree
from tests.operators.local_operator import Chart, LocalOperator, local_operator
from tests.operators.programs import BUILD_SECONDS

pytestmark = pytest.mark.timeout(BUILD_SECONDS)

CHART: Final = Chart(
    "jobset",
    "jobset-controller",
    "jobset-controller-config",
    "jobset-webhook-server-cert",
    {"jobset-webhook-service": 9443},
)


@pytest.fixture(scope="module")
def operator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalOperator]:
    """JobSet on a lab with two nodes."""
    folder = tmp_path_factory.mktemp("jobset")
    with allotment.Lab(fleet="t4-4x-pcie:2", tls=True) as lab, local_operator(lab, CHART, folder) as running:
        yield running


def job_set(name: str, command: str, **spec: object) -> Tree:
    """Two Jobs with two pods each."""
    container = {"name": "main", "image": "registry.example/train", "command": ["sh", "-c", command]}
    pod = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    job = {"parallelism": 2, "completions": 2, "backoffLimit": 0, "template": pod}
    workers = {"name": "workers", "replicas": 2, "template": {"spec": job}}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicatedJobs": [workers], **spec},
    }  # fmt: skip


def test_a_job_set_completes_with_its_jobs(operator: LocalOperator) -> None:
    lab = operator.lab
    [created] = lab.apply(job_set("train", "echo done"))
    # The mutating webhook has set the default.
    assert created["spec"]["replicatedJobs"][0]["template"]["spec"]["completionMode"] == "Indexed"
    lab.wait("jobset/train", until="Completed", timeout=60)
    jobs = lab.list("jobs", namespace="default", labels="jobset.sigs.k8s.io/jobset-name=train")
    assert [job["status"]["succeeded"] for job in jobs] == [2, 2]
    pods = lab.list("pods", namespace="default", labels="jobset.sigs.k8s.io/jobset-name=train")
    assert sorted(pod["spec"]["hostname"] for pod in pods) == [
        "train-workers-0-0", "train-workers-0-1", "train-workers-1-0", "train-workers-1-1",
    ]  # fmt: skip
    lab.delete("jobset", "train", timeout=60)
    assert not lab.list("jobs", namespace="default", labels="jobset.sigs.k8s.io/jobset-name=train")


def test_a_job_set_restarts_its_jobs_until_the_limit(operator: LocalOperator) -> None:
    lab = operator.lab
    lab.apply(job_set("fails", "exit 3", failurePolicy={"maxRestarts": 1}))
    [found] = lab.wait("jobset/fails", until="Failed", timeout=60)
    assert found["status"]["restarts"] == 1
    lab.delete("jobset", "fails", timeout=60)


def test_the_validating_webhook_refuses_a_job_set(operator: LocalOperator) -> None:
    policy = {"operator": "All", "targetReplicatedJobs": ["nope"]}
    with pytest.raises(NotApplied) as refused:
        operator.lab.apply(job_set("bad", "echo done", successPolicy=policy))
    assert "admission webhook" in str(refused.value)
    assert "invalid replicatedJob name 'nope' does not appear in .spec.ReplicatedJobs" in str(refused.value)
