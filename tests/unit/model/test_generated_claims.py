"""Claims and names that Kubernetes generates for pods, and the pods of workloads."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from allotment.model.core import Pod, PodResourceClaim, PodResourceClaimStatus, PodSpec, PodStatus, PodTemplateSpec
from allotment.model.generated_claims import (
    POD_CLAIM_NAME,
    UnresolvedClaim,
    claim_name,
    generate_claims,
    generated_claim,
    generated_name,
    is_owned_by,
    name_prefix,
    not_owner_message,
)
from allotment.model.meta import ObjectKey, ObjectMeta, OwnerReference
from allotment.model.resource import (
    DeviceClaim,
    DeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimTemplate,
    ResourceClaimTemplateSpec,
)
from allotment.model.workload_pods import hash_suffix, ordinal_suffix, pods_of
from allotment.model.workloads import (
    CronJob,
    CronJobSpec,
    DaemonSet,
    DaemonSetSpec,
    Deployment,
    DeploymentSpec,
    Job,
    JobSpec,
    JobTemplateSpec,
    ReplicaSet,
    StatefulSet,
    StatefulSetOrdinals,
    StatefulSetSpec,
)

ENTRY = PodResourceClaim(name="gpu", resource_claim_template_name="one")
SPEC = ResourceClaimSpec(devices=DeviceClaim(requests=(DeviceRequest(name="r"),)))
TEMPLATE = ResourceClaimTemplate(
    metadata=ObjectMeta(name="one", namespace="ns"),
    spec=ResourceClaimTemplateSpec(metadata=ObjectMeta(labels={"a": "b"}, annotations={"c": "d"}), spec=SPEC),
)
TEMPLATES = {ObjectKey("ns", "one"): TEMPLATE}
POD = Pod(metadata=ObjectMeta(name="web", namespace="ns", uid="u1"), spec=PodSpec(resource_claims=(ENTRY,)))
PODS = PodTemplateSpec(metadata=ObjectMeta(labels={"app": "web"}), spec=PodSpec(resource_claims=(ENTRY,)))
META = ObjectMeta(name="web", namespace="ns", uid="w")


def test_long_name_prefix_is_truncated_in_proportion_without_dash() -> None:
    assert name_prefix("web", "gpu") == "web-gpu-"
    prefix = name_prefix("p" * 40, "c" * 20)
    assert prefix == "p" * (40 * 57 // 62) + "-" + "c" * (20 * 57 // 62)
    assert generated_name(prefix, "abcde") == prefix + "abcde"


@given(st.text("abc-", min_size=1, max_size=253), st.text("xyz-", min_size=1, max_size=63))
def test_generated_names_are_at_most_63_characters(pod: str, entry: str) -> None:
    assert len(generated_name(name_prefix(pod, entry), "abcde")) <= 63


def test_generated_claim_has_the_spec_of_the_template_and_the_pod_as_owner() -> None:
    claim = generated_claim(POD, ENTRY, TEMPLATE, "abcde")
    assert claim == ResourceClaim(
        metadata=ObjectMeta(
            name="web-gpu-abcde",
            generate_name="web-gpu-",
            namespace="ns",
            labels={"a": "b"},
            annotations={"c": "d", POD_CLAIM_NAME: "gpu"},
            owner_references=(OwnerReference(api_version="v1", kind="Pod", name="web", uid="u1", controller=True),),
        ),
        spec=SPEC,
    )
    assert is_owned_by(claim, POD)
    other = replace(POD, metadata=replace(POD.metadata, uid="u2"))
    assert not is_owned_by(claim, other)
    assert not_owner_message(claim, other) == (
        "ResourceClaim ns/web-gpu-abcde was not created for Pod ns/web (Pod is not owner)"
    )


def test_claim_name() -> None:
    assert claim_name(POD, PodResourceClaim(name="x", resource_claim_name="shared")) == "shared"
    status = PodStatus(resource_claim_statuses=(PodResourceClaimStatus(name="gpu"),))
    assert claim_name(replace(POD, status=status), ENTRY) is None
    with pytest.raises(UnresolvedClaim, match=r'^pod "ns/web": ResourceClaim not created yet$'):
        claim_name(POD, ENTRY)
    with pytest.raises(UnresolvedClaim, match=r'spec.resourceClaim "x": none of the supported fields are set$'):
        claim_name(POD, PodResourceClaim(name="x"))


def test_generate_claims_sets_the_status_once_and_reuses_existing_claims() -> None:
    generated = generate_claims(POD, TEMPLATES, ordinal_suffix)
    assert [claim.metadata.name for claim in generated.claims] == ["web-gpu-0"]
    assert claim_name(generated.pod, ENTRY) == "web-gpu-0"
    again = generate_claims(generated.pod, TEMPLATES, ordinal_suffix)
    assert (again.pod, again.claims, again.missing) == (generated.pod, (), ())
    orphan = generated_claim(POD, ENTRY, TEMPLATE, "zzzzz")
    reused = generate_claims(POD, TEMPLATES, ordinal_suffix, existing=[orphan])
    assert (reused.claims, claim_name(reused.pod, ENTRY)) == ((), "web-gpu-zzzzz")


def test_missing_templates_are_returned_and_named_claims_ignored() -> None:
    named = PodResourceClaim(name="n", resource_claim_name="shared")
    pod = replace(POD, spec=PodSpec(resource_claims=(named, ENTRY)))
    generated = generate_claims(pod, {}, ordinal_suffix)
    assert (generated.pod, generated.claims, generated.missing) == (pod, (), (ENTRY,))


def names(*args: object, **kwargs: object) -> list[str]:
    return [pod.metadata.name for pod in pods_of(*args, **kwargs)]  # type: ignore[arg-type]


def test_pods_of_replicated_workloads() -> None:
    assert names(Deployment(metadata=META, spec=DeploymentSpec(template=PODS))) == ["web-0"]
    assert names(ReplicaSet(metadata=META, spec=DeploymentSpec(replicas=3))) == ["web-0", "web-1", "web-2"]
    assert names(Deployment(metadata=META, spec=DeploymentSpec(replicas=0))) == []
    assert names(Deployment(metadata=META, spec=DeploymentSpec(replicas=-3))) == []
    assert names(Deployment(metadata=META, spec=DeploymentSpec(replicas=2**31 - 1)), limit=2) == ["web-0", "web-1"]
    assert names(POD) == ["web"]
    assert names(TEMPLATE) == []
    (pod,) = pods_of(Deployment(metadata=META, spec=DeploymentSpec(template=PODS)), uid=str)
    assert pod == Pod(
        metadata=ObjectMeta(
            name="web-0",
            generate_name="web-",
            namespace="ns",
            uid="ns/web-0",
            labels={"app": "web"},
            owner_references=(
                OwnerReference(
                    api_version="apps/v1",
                    kind="Deployment",
                    name="web",
                    uid="w",
                    controller=True,
                    block_owner_deletion=True,
                ),
            ),
        ),
        spec=PODS.spec,
    )


def test_stateful_set_starts_at_its_first_ordinal() -> None:
    spec = StatefulSetSpec(replicas=2, ordinals=StatefulSetOrdinals(start=5))
    assert names(StatefulSet(metadata=META, spec=spec)) == ["web-5", "web-6"]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (JobSpec(), ["web-0"]),
        (JobSpec(parallelism=4, completions=3), ["web-0", "web-1", "web-2"]),
        (JobSpec(parallelism=2), ["web-0", "web-1"]),
        (JobSpec(completions=5), ["web-0"]),
        (JobSpec(parallelism=0), []),
        (JobSpec(parallelism=2, suspend=True), []),
        (JobSpec(parallelism=2, completions=2, completion_mode="Indexed"), ["web-0-0", "web-1-1"]),
    ],
)
def test_job_has_the_pods_that_run_at_the_same_time(spec: JobSpec, expected: list[str]) -> None:
    assert names(Job(metadata=META, spec=spec)) == expected


def test_cron_job_has_the_pods_of_one_job() -> None:
    job = JobTemplateSpec(spec=JobSpec(parallelism=2, completions=2))
    assert names(CronJob(metadata=META, spec=CronJobSpec(job_template=job))) == ["web-0-0", "web-0-1"]
    assert names(CronJob(metadata=META, spec=CronJobSpec(job_template=job, suspend=True))) == []


def test_daemon_pods_are_bound_to_their_nodes() -> None:
    first, second = pods_of(DaemonSet(metadata=META, spec=DaemonSetSpec(template=PODS)), nodes=["n1", "n2"])
    assert (first.metadata.name, second.metadata.name) == ("web-0", "web-1")
    assert second.spec.affinity is not None
    assert second.spec.affinity.node_affinity is not None
    required = second.spec.affinity.node_affinity.required_during_scheduling_ignored_during_execution
    assert required is not None
    assert required.node_selector_terms[0].match_fields[0].values == ("n2",)
    assert "node.kubernetes.io/unschedulable" in {toleration.key for toleration in second.spec.tolerations}


def test_hash_suffix_is_deterministic() -> None:
    suffixes = {hash_suffix("web-", number) for number in range(200)}
    assert len(suffixes) == 200
    assert hash_suffix("web-", 0) == hash_suffix("web-", 0)
    assert all(len(suffix) == 5 and set(suffix) <= set("bcdfghjklmnpqrstvwxz2456789") for suffix in suffixes)
