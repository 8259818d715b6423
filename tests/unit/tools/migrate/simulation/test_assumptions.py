"""Requirements that the input does not describe are assumed to be met before and after."""

from __future__ import annotations

from tests.unit.tools.migrate.manifests import workload
from tests.unit.tools.migrate.trials import in_cluster, on_fleet, row, t4s, tried

GPU = {"nvidia.com/gpu": 1}


def test_resources_of_other_devices_are_assumed() -> None:
    trial = tried(on_fleet(workload(limits={**GPU, "rdma/hca": 1, "cpu": 1}), fleet="t4"))
    assert (trial.workloads[0].fitted, trial.workloads[0].fit) == (1, 1)
    assert trial.assumed == {"rdma/hca": ("Deployment default/web",)}


def test_unknown_claims_of_the_pod_are_assumed() -> None:
    claims = [{"name": "net", "resourceClaimTemplateName": "nic"}]
    container = {"name": "a", "image": "i", "resources": {"limits": GPU, "claims": [{"name": "net"}]}}
    text = workload(containers=[container], resourceClaims=claims)
    for migration in (on_fleet(text, fleet="t4", strategy="claims"), in_cluster(text, objects=[t4s("n1")])):
        trial = tried(migration)
        assert (trial.workloads[0].fitted, trial.workloads[0].fit, trial.workloads[0].changed) == (1, 1, ())
        assert list(trial.assumed) == ["template nic"]


def test_a_suspended_job_is_simulated() -> None:
    compared = row(
        on_fleet(workload("Job", spec={"suspend": True, "parallelism": 2, "completions": 2}, limits=GPU), fleet="2xt4")
    )
    assert (compared.pods, compared.fit) == (2, 2)


def test_a_job_with_a_generated_name_is_simulated() -> None:
    text = workload("Job", limits=GPU).replace("name: web", "generateName: train-", 1)
    migration = on_fleet(text, fleet="t4", strategy="claims")
    compared = row(migration)
    assert (compared.subject, compared.pods, compared.fit) == ("Job default/train-*", 1, 1)
    assert migration.workloads[0].claim_name == "train-gpu"
