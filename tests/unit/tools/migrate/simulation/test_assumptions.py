"""What is taken as met on both sides, so that a pod is not lost by what nothing tells of."""

from __future__ import annotations

from tests.unit.tools.migrate.manifests import workload
from tests.unit.tools.migrate.trials import in_cluster, on_fleet, row, t4s, tried

GPU = {"nvidia.com/gpu": 1}


def test_resources_of_other_devices() -> None:
    trial = tried(on_fleet(workload(limits={**GPU, "rdma/hca": 1, "cpu": 1}), fleet="t4"))
    assert (trial.workloads[0].fitted, trial.workloads[0].fit) == (1, 1)
    assert trial.assumed == {"rdma/hca": ("Deployment default/web",)}


def test_claims_that_the_pod_has_already() -> None:
    claims = [{"name": "net", "resourceClaimTemplateName": "nic"}]
    container = {"name": "a", "image": "i", "resources": {"limits": GPU, "claims": [{"name": "net"}]}}
    text = workload(containers=[container], resourceClaims=claims)
    for migration in (on_fleet(text, fleet="t4", strategy="claims"), in_cluster(text, objects=[t4s("n1")])):
        trial = tried(migration)
        assert (trial.workloads[0].fitted, trial.workloads[0].fit, trial.workloads[0].changed) == (1, 1, ())
        assert list(trial.assumed) == ["template nic"]


def test_a_job_that_its_queue_holds_back() -> None:
    one = row(
        on_fleet(workload("Job", spec={"suspend": True, "parallelism": 2, "completions": 2}, limits=GPU), fleet="2xt4")
    )
    assert (one.pods, one.fit) == (2, 2)


def test_a_job_of_a_generated_name() -> None:
    text = workload("Job", limits=GPU).replace("name: web", "generateName: train-", 1)
    migration = on_fleet(text, fleet="t4", strategy="claims")
    one = row(migration)
    assert (one.subject, one.pods, one.fit) == ("Job default/train-*", 1, 1)
    assert migration.workloads[0].claim_name == "train-gpu"
