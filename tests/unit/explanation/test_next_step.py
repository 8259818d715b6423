"""The command that helps most after a refusal, by the first remedy and the origin of its object."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from allotment.engine.refusal import AllocationRefusal, Diagnosis, SuggestedChange
from allotment.explanation.next_step import Origin, manifest_note, next_step, next_step_in_message, with_next_steps
from allotment.explanation.replacement import manifests, replacement_of
from allotment.explanation.report import Answer, Explanation
from allotment.model.core import Namespace, Pod, PodResourceClaim, PodSpec, PodStatus, PodTemplateSpec, Toleration
from allotment.model.meta import Object, ObjectMeta, OwnerReference
from allotment.model.resource import (
    AllocationResult,
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceClaimStatus,
)
from allotment.model.trees import to_tree
from allotment.model.workloads import StatefulSet, StatefulSetSpec

UNCORDON = SuggestedChange(text="uncordon a", object="Node a", path="spec.unschedulable", remedy="uncordon")
LABEL = SuggestedChange(
    text="label namespace ml to allow admin access", object="Namespace ml", path="metadata.labels",
    becomes={"resource.kubernetes.io/admin-access": "true"}, remedy="allow",
)  # fmt: skip
FEWER = SuggestedChange(
    text="request 1 device", object="ResourceClaim ml/gpus", path="spec.devices.requests[0].exactly.count",
    becomes=1, remedy="less",
)  # fmt: skip
WAIT = SuggestedChange(
    text="wait for pod b to finish", object="ResourceClaim ml/gpus", path="status.allocation", remedy="wait"
)
RESTART = SuggestedChange(text="wait until the driver has published all slices", remedy="driver")


def refused(*changes: SuggestedChange, code: str = "too-few-devices", name: str = "ml/p", owner: str = "") -> Answer:
    headline = AllocationRefusal(code=code, summary="", changes=changes)
    return Answer(kind="Pod", name=name, outcome="refused", reasons=Diagnosis(headline=headline), owner=owner)


def cluster(*values: Object) -> Origin:
    return Origin({f"{type(value).__name__} {value.key}": value for value in values})


def pod(name: str, phase: str = "Running", namespace: str = "ml", **labels: str) -> Pod:
    tolerations = (Toleration(key="node.kubernetes.io/not-ready", operator="Exists", effect="NoExecute"),)
    return Pod(
        metadata=ObjectMeta(name=name, namespace=namespace, labels=labels),
        spec=PodSpec(tolerations=tolerations),
        status=PodStatus(phase=phase),
    )


def claim(*users: str, namespace: str = "ml") -> ResourceClaim:
    reserved = tuple(ResourceClaimConsumerReference(resource="pods", name=user, uid=user) for user in users)
    return ResourceClaim(
        metadata=ObjectMeta(name="gpus", namespace=namespace),
        status=ResourceClaimStatus(allocation=AllocationResult(), reserved_for=reserved),
    )


def test_changes_of_the_cluster_are_kubectl_commands() -> None:
    assert next_step(refused(UNCORDON), Origin()) == "kubectl uncordon a"
    label = "resource.kubernetes.io/admin-access=true"
    assert next_step(refused(LABEL), Origin()) == f"kubectl label namespace ml {label}"
    assert next_step(refused(UNCORDON, LABEL), Origin()) == f"kubectl uncordon a && kubectl label namespace ml {label}"


def test_a_label_with_another_value_is_overwritten() -> None:
    labels = {"resource.kubernetes.io/admin-access": "yes"}
    origin = cluster(Namespace(metadata=ObjectMeta(name="ml", labels=labels)))
    assert next_step(refused(LABEL), origin).startswith("kubectl label --overwrite namespace ml ")


def test_kubectl_uses_the_connection_of_the_question() -> None:
    origin = Origin(connection=("--context", "team a"))
    assert next_step(refused(UNCORDON), origin) == "kubectl --context 'team a' uncordon a"


def test_an_immutable_object_of_the_cluster_is_replaced() -> None:
    free = ResourceClaim(metadata=ObjectMeta(name="gpus", namespace="ml"))
    origin = cluster(free)._replace(connection=("--context", "a"), options=("--context", "a"))
    step = "allot explain pod/p -n ml --context a -o manifests | kubectl --context a replace --force -f -"
    assert next_step(refused(FEWER), origin) == step


def test_a_claim_in_use_is_not_replaced() -> None:
    assert "replace" not in next_step(refused(FEWER), cluster(claim("other")))


def test_an_object_of_another_namespace_is_not_replaced() -> None:
    elsewhere = ResourceClaim(metadata=ObjectMeta(name="gpus", namespace="team-b"))
    change = replace(FEWER, object="ResourceClaim team-b/gpus")
    assert "replace" not in next_step(refused(change), cluster(elsewhere))


def test_the_commands_for_other_objects_come_first() -> None:
    free = ResourceClaim(metadata=ObjectMeta(name="gpus", namespace="ml"))
    step = "kubectl uncordon a && allot explain pod/p -n ml -o manifests | kubectl replace --force -f -"
    assert next_step(refused(UNCORDON, FEWER), cluster(free)) == step


def test_an_object_that_does_not_exist_is_not_named() -> None:
    assert next_step(refused(FEWER), Origin()) == "allot plan"


def test_tolerations_are_added_to_those_that_the_api_server_has_added() -> None:
    toleration = {"key": "dedicated", "operator": "Exists"}
    tolerate = SuggestedChange(
        text="tolerate", object="Pod ml/p", path="spec.tolerations", becomes=[toleration], remedy="tolerate-node"
    )
    patch = '[{"op":"add","path":"/spec/tolerations/-","value":{"key":"dedicated","operator":"Exists"}}]'
    step = next_step(refused(tolerate), cluster(pod("p")))
    assert step == f"kubectl patch pod p -n ml --type=json -p '{patch}'"


def test_the_deployment_of_an_existing_pod_is_changed_although_it_was_not_read() -> None:
    select = SuggestedChange(
        text="set nodeSelector", object="Deployment ml/web", path="spec.template.spec.nodeSelector",
        becomes={"pool": "gpu"}, remedy="select",
    )  # fmt: skip
    answer = refused(select, name="ml/web-5d9-x", owner="ReplicaSet ml/web-5d9")
    patch = '{"spec":{"template":{"spec":{"nodeSelector":{"pool":"gpu"}}}}}'
    origin = cluster(pod("web-5d9-x", **{"pod-template-hash": "5d9"}))
    assert next_step(answer, origin) == f"kubectl patch deployment web -n ml --type=merge -p '{patch}'"


def test_no_command_drops_what_the_pod_requires_of_devices() -> None:
    drop = SuggestedChange(
        text="remove the nodeSelector", object="Deployment ml/web", path="spec.template.spec.nodeSelector",
        remedy="unselect-hardware",
    )  # fmt: skip
    answer = refused(drop, name="ml/web-5d9-x", owner="ReplicaSet ml/web-5d9")
    origin = cluster(pod("web-5d9-x", **{"pod-template-hash": "5d9"}))
    files = origin._replace(files=("web.yaml",), for_files=lambda name: "allot check web.yaml --fix")
    for step in (next_step(answer, origin), next_step(answer, files)):
        assert "patch" not in step
        assert "--fix" not in step
        assert step.startswith(("allot ", "kubectl "))


@pytest.mark.parametrize(
    ("values", "step"),
    [
        ((claim("b"), pod("b")), "kubectl get pod b -n ml"),
        ((claim("b", "c"), pod("b"), pod("c")), "kubectl get pod b c -n ml"),
        ((claim("b"), pod("b", "Succeeded")), "kubectl delete pod b -n ml"),
        ((claim("b", "c"), pod("b", "Failed"), pod("c")), "kubectl delete pod b -n ml"),
        ((claim("b"),), "kubectl describe resourceclaim gpus -n ml"),
    ],
)
def test_users_of_the_devices_are_shown_or_deleted_if_they_have_ended(values: tuple[Object, ...], step: str) -> None:
    assert next_step(refused(WAIT, code="devices-in-use"), cluster(*values)) == step


def test_an_ended_pod_of_another_namespace_is_not_deleted() -> None:
    origin = cluster(claim("b"), pod("b", "Succeeded"))
    step = next_step(refused(WAIT, code="devices-in-use", name="other/p"), origin)
    assert step == "kubectl describe resourceclaim gpus -n ml"


def test_all_pods_to_wait_for_are_shown() -> None:
    other = claim("c")
    values = (pod("b"), pod("c"), claim("b"), replace(other, metadata=replace(other.metadata, name="more")))
    both = SuggestedChange(text="wait for pods b, c to finish (claims ml/gpus, ml/more)", remedy="wait")
    assert next_step(refused(both, code="gang-incomplete"), cluster(*values)) == "kubectl get pod b c -n ml"


def replicas(count: int, running: int) -> list[Pod]:
    """The pods of a Deployment, and those of them that are running have a node."""
    owner = OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="web-1", uid="1", controller=True)
    pods = [pod(f"web-1-{number}", **{"pod-template-hash": "1"}) for number in range(count)]
    return [
        replace(
            value,
            metadata=replace(value.metadata, owner_references=(owner,)),
            spec=replace(value.spec, node_name="a" if number < running else None),
        )
        for number, value in enumerate(pods)
    ]


def test_a_workload_is_scaled_to_the_replicas_that_have_devices() -> None:
    fewer = SuggestedChange(text="run fewer replicas of Deployment ml/web, or add a node", remedy="replicas")
    answer = refused(fewer, code="devices-in-use", name="ml/web-1-2", owner="ReplicaSet ml/web-1")
    assert next_step(answer, cluster(*replicas(3, 2))) == "kubectl scale deployment web -n ml --replicas=2"
    assert manifest_note(answer, cluster(*replicas(3, 2))).endswith("fails: replicas: 2 in Deployment web")
    assert "scale" not in next_step(answer, cluster(*replicas(3, 0)))


def test_what_a_command_changes_in_the_cluster_is_also_to_be_changed_in_the_manifest() -> None:
    free = replace(claim(), status=ResourceClaimStatus())
    assert manifest_note(refused(UNCORDON, FEWER), cluster(free)) == (
        "make the same change in the manifest, or the next kubectl apply reverts it or fails: "
        "count: 1 in ResourceClaim gpus"
    )
    assert manifest_note(refused(UNCORDON), cluster(free)) == ""
    files = cluster(free)._replace(in_files=frozenset({"ResourceClaim ml/gpus"}))
    assert manifest_note(refused(FEWER), files) == ""


def naming(name: str) -> Pod:
    """A pod that names a claim."""
    spec = PodSpec(resource_claims=(PodResourceClaim(name="gpu", resource_claim_name=name),))
    return replace(pod("p", "Pending"), spec=spec)


def test_a_missing_claim_of_a_pod_in_the_cluster_is_looked_for() -> None:
    """The API server may have rejected its manifest, so that it must not be written once more."""
    answer, origin = refused(code="claim-missing"), cluster(naming("gpus"))
    assert next_step(answer, origin) == "kubectl get resourceclaims -n ml"
    snapshot = origin._replace(place="snapshot", options=("--cluster", "a.yaml"))
    assert next_step(answer, snapshot) == "kubectl get resourceclaims -n ml"


def test_a_missing_claim_of_a_pod_in_files_is_written() -> None:
    answer, origin = refused(code="claim-missing"), cluster(naming("gpus"))
    new = origin._replace(files=("a.yaml",), in_files=frozenset({"Pod ml/p"}))
    assert next_step(answer, new) == "allot claim --gpus 1 --share --name gpus -n ml"
    rejected = new._replace(for_files=lambda name: "allot check a.yaml --fix")
    assert next_step(answer, rejected) == "allot check a.yaml --fix"


def test_files_are_fixed_by_check() -> None:
    origin = cluster(claim())._replace(
        files=("a.yaml",), in_files=frozenset({"ResourceClaim ml/gpus"}), place="hardware",
        options=("--fleet", "t4"), for_files=lambda name: f"allot check a.yaml --fleet t4 --fix # {name}",
    )  # fmt: skip
    assert next_step(refused(FEWER), origin) == "allot check a.yaml --fleet t4 --fix # ml/p"
    assert next_step(refused(UNCORDON), origin) == "kubectl uncordon a"
    unfixable = origin._replace(for_files=lambda name: "")
    assert next_step(refused(FEWER), unfixable) == "allot plan -f a.yaml"


def test_problems_of_drivers_are_examined_by_doctor() -> None:
    assert next_step(refused(RESTART, code="pool-incomplete"), Origin()) == "allot doctor"
    snapshot = Origin(place="snapshot", options=("--cluster", "a.yaml"))
    assert next_step(refused(code="driver-missing"), snapshot) == "allot doctor --cluster a.yaml"
    assert next_step(Answer(kind="Pod", name="ml/p", outcome="unprepared"), Origin()) == "allot doctor"


def test_standard_input_is_not_read_again() -> None:
    origin = Origin(files=("-",), place="hardware", options=("--fleet", "t4"), is_repeatable=False)
    assert next_step(refused(code="devices-in-use"), origin) == ""
    assert next_step(refused(UNCORDON), origin) == "kubectl uncordon a"


def test_a_pod_that_fits_has_no_next_step() -> None:
    assert next_step(Answer(kind="Pod", name="ml/p", outcome="fits"), Origin()) == ""


def test_messages_name_explain_unless_a_command_makes_the_pod_fit() -> None:
    uncordon, fewer = refused(UNCORDON).reasons, refused(FEWER).reasons
    assert uncordon is not None
    assert fewer is not None
    assert next_step_in_message("ml/p", uncordon) == "kubectl uncordon a"
    assert next_step_in_message("ml/p", fewer) == "allot explain pod/p -n ml"


def _stateful(right: bool) -> tuple[Answer, Origin]:
    """A pod of a StatefulSet whose template refers to the claim, or already to the template as it should."""
    owner = OwnerReference(kind="StatefulSet", name="infer", controller=True)
    names = [PodResourceClaim(name="gpu", resource_claim_name="t4")]
    right_names = (PodResourceClaim(name="gpu", resource_claim_template_name="t4"),)
    old = Pod(
        metadata=ObjectMeta(name="infer-0", namespace="ml", uid="u", owner_references=(owner,)),
        spec=PodSpec(resource_claims=tuple(names)),
        status=PodStatus(phase="Pending"),
    )
    template = PodTemplateSpec(spec=PodSpec(resource_claims=right_names if right else tuple(names)))
    workload = StatefulSet(metadata=ObjectMeta(name="infer", namespace="ml"), spec=StatefulSetSpec(template=template))
    change = SuggestedChange(
        text="refer to it with resourceClaimTemplateName", object="StatefulSet ml/infer",
        path="spec.template.spec.resourceClaims", becomes=[to_tree(right_names[0])], node="a", remedy="name",
    )  # fmt: skip
    answer = refused(change, code="claim-missing", name="ml/infer-0", owner="StatefulSet ml/infer")
    return answer, cluster(old, workload)


def test_the_pod_that_a_stateful_set_keeps_is_deleted_after_the_change() -> None:
    answer, origin = _stateful(right=False)
    step = next_step(answer, origin)
    assert step.startswith("kubectl patch statefulset infer -n ml ")
    assert step.endswith(" && kubectl delete pod infer-0 -n ml")


def test_only_the_pod_is_deleted_if_its_stateful_set_is_right_already() -> None:
    answer, origin = _stateful(right=True)
    found = with_next_steps(Explanation(answers=(answer,)), origin).answers[0]
    assert found.next == "kubectl delete pod infer-0 -n ml"
    assert found.reasons is not None
    change = found.reasons.headline.changes[0]
    assert change.text == "delete pod infer-0: StatefulSet infer has the change already, but keeps the pod"
    assert change.command == found.next


def test_an_object_in_the_wrong_namespace_is_moved() -> None:
    move = SuggestedChange(
        text="move ResourceClaim gpus to namespace ml", object="ResourceClaim default/gpus", path="metadata.namespace",
        becomes="ml", node="a", remedy="name",
    )  # fmt: skip
    misplaced = ResourceClaim(metadata=ObjectMeta(name="gpus", namespace="default"))
    answer = refused(move, code="wrong-namespace")
    assert next_step(answer, cluster(pod("p", "Pending"), misplaced)) == (
        "allot explain pod/p -n ml -o manifests | kubectl replace --force -f - && "
        "kubectl delete resourceclaim gpus -n default"
    )
    found = replacement_of(answer, {"ResourceClaim default/gpus": misplaced})
    assert found is not None
    tree = {"kind": "ResourceClaim", "metadata": {"name": "gpus", "namespace": "default"}}
    assert [each["metadata"] for each in manifests(found, {move.object: tree})] == [{"name": "gpus", "namespace": "ml"}]
    in_use = cluster(pod("p", "Pending"), claim("b", namespace="default"))
    assert next_step(answer, in_use) == "kubectl get resourceclaims -n ml"
