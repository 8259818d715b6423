"""Pending pods: groups, and answers equal to those of ``explain``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace as replace_fields
from itertools import chain
from pathlib import Path

import pytest
from msgspec.structs import replace

import allotment
from allotment.api.cluster import Cluster
from allotment.api.clusters.source import ClusterOrigin
from allotment.engine.cluster.inventory import Inventory
from allotment.engine.refusal import SuggestedChange
from allotment.errors import InputError
from allotment.model.core import PodResourceClaim, PodStatus
from allotment.model.meta import Object, ObjectMeta
from allotment.model.resource import DeviceClass, ResourceSlice
from allotment.model.serialization import to_yaml
from allotment.model.trees import manifest_of, to_tree
from allotment.screens.device_map import device_map
from allotment.screens.object_page import object_page
from allotment.screens.pending import pending, pending_detail
from allotment.screens.pending_pods import PendingGroup, pending_pods
from allotment.watched.cluster import view_of
from allotment.watched.view import ClusterView, Place
from tests.unit.screens.clusters import CREATED, WORLDS, fleet, pod, request, template, view, world

BIG = request(9)


@pytest.mark.parametrize("name", WORLDS)
def test_answers_are_those_of_explain(name: str) -> None:
    cluster = world(name)
    try:
        expected = {answer.name: answer.to_dict() for answer in allotment.explain(cluster=cluster.cluster).answers}
    except InputError:  # nothing is pending in the cluster
        assert pending(cluster).groups == ()
        return
    groups = pending_pods(cluster).groups
    assert {answer.name: answer.to_dict() for group in groups for answer in group.answers} == {
        name: expected[name] for group in groups for name in (answer.name for answer in group.answers)
    }
    members = {str(each.key) for group in groups for each in group.pods}
    assert members | {answer.name for group in groups for answer in group.answers} == expected.keys()


def test_a_snapshot_without_kinds_that_its_pods_need_says_so(tmp_path: Path) -> None:
    waiting, devices = pod("a", spec=BIG)[0], fleet("t4-4x-pcie")
    pods = to_yaml([to_tree(waiting, "v1", "Pod")])

    def notes(text: str) -> tuple[str, ...]:
        (tmp_path / "dump.yaml").write_text(text)
        return pending(view_of(Cluster.snapshot(tmp_path / "dump.yaml"))).cluster.notes

    (note,) = notes(pods)
    assert note.startswith("the snapshot contains no ResourceSlices or ResourceClaimTemplates:")
    nodes, others = devices[:1], (*devices[1:], template(spec=BIG))
    complete = f"{to_yaml(to_tree(each, 'v1', 'Node') for each in nodes)}---\n{to_yaml(map(manifest_of, others))}"
    assert notes(f"{pods}---\n{complete}") == ()
    without_classes = to_yaml(manifest_of(each) for each in others if type(each) is not DeviceClass)
    (note,) = notes(f"{pods}---\n{without_classes}")
    assert note.startswith("the snapshot contains no DeviceClasses:")


def test_slices_that_an_api_server_would_reject_are_on_no_screen(tmp_path: Path) -> None:
    devices = fleet("t4-4x-pcie")
    wrong = [
        replace(each, metadata=replace(each.metadata, uid=""), spec=replace(each.spec, node_name="../a b"))
        for each in devices
        if isinstance(each, ResourceSlice)
    ]
    objects = (*(each for each in devices if isinstance(each, DeviceClass)), *wrong, template(spec=BIG))
    pods = to_yaml([to_tree(pod("a", spec=BIG)[0], "v1", "Pod")])
    (tmp_path / "dump.yaml").write_text(f"{pods}---\n{to_yaml(map(manifest_of, objects))}")
    cluster = view_of(Cluster.snapshot(tmp_path / "dump.yaml"))
    (note,) = pending(cluster).cluster.notes
    assert note.startswith("ignored, because an API server would reject them: ResourceSlice ")
    assert "(spec.nodeName)" in note
    (group,) = pending(cluster).groups
    assert "no ResourceSlices" in group.summary
    assert device_map(cluster).nodes == ()


def test_replicas_are_one_group_with_one_answer() -> None:
    replicas = [each for number in range(40) for each in pod(f"web-{number}", owner="ReplicaSet/web", spec=BIG)]
    cluster = view(*fleet("dgx-a100-40gb"), template(spec=BIG), *replicas)
    (group,) = pending(cluster).groups
    assert (group.code, group.count, group.workloads) == ("too-few-devices", 40, ("ReplicaSet ml/web",))
    assert len(group.pods) == 20
    assert len(pending_pods(cluster).groups[0].answers) == 1


def test_equal_requests_of_namespaces_are_one_group_with_an_answer_for_each() -> None:
    names = ("ml", "research")
    objects = [
        each for name in names for each in (template(spec=BIG, namespace=name), *pod("a", namespace=name, spec=BIG))
    ]
    cluster = view(*fleet("dgx-a100-40gb"), *objects)
    (group,) = pending(cluster).groups
    assert group.namespaces == names
    assert pending_detail(cluster, group.id, "research/a").answer.name == "research/a"


def test_equal_claims_that_pods_name_are_one_group() -> None:
    """The manifests of a batch often have a claim of its own for each pod."""
    objects: list[Object] = []
    for number in range(3):
        own, claim = pod(f"job-{number}", spec=BIG)
        entry = PodResourceClaim(name="gpu", resource_claim_name=claim.metadata.name)
        named = replace(own, spec=replace(own.spec, resource_claims=(entry,)), status=PodStatus(phase="Pending"))
        objects += (named, replace(claim, metadata=replace(claim.metadata, owner_references=())))
    cluster = view(*fleet("dgx-a100-40gb"), *objects)
    (group,) = pending(cluster).groups
    assert (group.code, group.count) == ("too-few-devices", 3)
    assert pending_detail(cluster, group.id, "ml/job-2").answer.name == "ml/job-2"


def _waiting(name: str, device: str, *, is_generated: bool) -> tuple[Object, ...]:
    """A pod that has no node yet, although its claim is allocated."""
    own, claim = pod(name, device, node="t4-4x-pcie-1")
    waiting = replace(own, spec=replace(own.spec, node_name=""), status=replace(own.status, phase="Pending"))
    if is_generated:
        return waiting, claim
    entry = PodResourceClaim(name="gpu", resource_claim_name=claim.metadata.name)
    named = replace(waiting, spec=replace(waiting.spec, resource_claims=(entry,)), status=PodStatus(phase="Pending"))
    return named, replace(claim, metadata=replace(claim.metadata, owner_references=()))


@pytest.mark.parametrize("is_generated", [True, False])
def test_pods_with_allocated_claims_of_their_own_are_one_group(is_generated: bool) -> None:
    waiting = [each for n in range(3) for each in _waiting(f"job-{n}", f"gpu-{n}", is_generated=is_generated)]
    cluster = view(*fleet("t4-4x-pcie"), template(), *waiting)
    (group,) = pending(cluster).groups
    assert (group.code, group.count, group.pods) == ("fits", 3, ("ml/job-0", "ml/job-1", "ml/job-2"))
    detail = pending_detail(cluster, group.id, "ml/job-2")
    assert (detail.answer.name, detail.answers) == ("ml/job-2", 3)


def test_pods_of_one_workload_with_one_code_are_one_group() -> None:
    """During a rollout, the pods of a workload have different requests."""
    smaller = request(7)
    cluster = view(
        *fleet("t4-4x-pcie"), template(spec=BIG), template("new", smaller),
        *pod("a", owner="Job/j", spec=BIG), *pod("b", of="new", owner="Job/j", spec=smaller),
    )  # fmt: skip
    (group,) = pending(cluster).groups
    assert (group.code, group.count, group.workloads) == ("too-few-devices", 2, ("Job ml/j",))
    assert "7 devices" in str(pending_detail(cluster, group.id, "ml/b").text)


def test_workloads_with_one_code_and_different_texts_are_different_groups() -> None:
    smaller = request(7)
    cluster = view(
        *fleet("t4-4x-pcie"), template(spec=BIG), template("new", smaller),
        *pod("a", owner="Job/j", spec=BIG), *pod("b", of="new", owner="Job/k", spec=smaller),
    )  # fmt: skip
    assert [group.code for group in pending(cluster).groups] == ["too-few-devices"] * 2


def test_equal_claims_that_no_pod_uses_are_one_group() -> None:
    claims = [replace(pod(f"job-{number}", spec=BIG)[1], metadata=ObjectMeta(name=f"spare-{number}", namespace="ml"))
              for number in range(3)]  # fmt: skip
    screen = pending(view(*fleet("t4-4x-pcie"), *claims))
    (group,) = screen.groups
    assert (group.kind, group.count, group.pods) == ("ResourceClaim", 3, ("ml/spare-0", "ml/spare-1", "ml/spare-2"))
    assert screen.count == 0


def test_a_group_is_found_by_the_request_of_any_of_its_pods() -> None:
    smaller = request(7)
    objects = (*fleet("t4-4x-pcie"), template(spec=BIG), template("new", smaller))
    later = pod("b", of="new", owner="Job/j", spec=smaller, created="2026-03-01T00:00:00Z")
    (alone,) = pending(view(*objects, *later)).groups
    (both,) = pending(cluster := view(*objects, *pod("a", owner="Job/j", spec=BIG), *later, revision=2)).groups
    assert replace(pending_detail(cluster, alone.id).group, next="") == both


def test_pods_that_fit_come_last_and_say_what_they_wait_for() -> None:
    cluster = view(*fleet("t4-4x-pcie"), template(), template("big", BIG), *pod("a"), *pod("b", of="big", spec=BIG))
    screen = pending(cluster)
    assert [group.code for group in screen.groups] == ["too-few-devices", "fits"]
    assert screen.count == 2


def test_a_replica_that_no_longer_fits_is_in_another_group_than_one_that_fits() -> None:
    replicas = [each for number in range(6) for each in pod(f"web-{number}", owner="ReplicaSet/web")]
    screen = pending(view(*fleet("t4-4x-pcie"), template(), *replicas))
    assert {group.code: group.count for group in screen.groups} == {"devices-in-use": 2, "fits": 4}


def test_the_id_of_a_group_stays_while_cause_and_request_do() -> None:
    objects = (*fleet("dgx-a100-40gb"), template(spec=BIG))
    before = pending(view(*objects, *pod("a", spec=BIG)))
    after = pending(view(*objects, *pod("b", spec=BIG), revision=2))
    assert before.groups[0].id == after.groups[0].id


def test_the_oldest_pod_gives_the_age() -> None:
    objects = (*fleet("dgx-a100-40gb"), template(spec=BIG))
    later = pod("b", owner="Job/j", spec=BIG, created="2026-03-01T00:00:00Z")
    (group,) = pending(view(*objects, *pod("a", owner="Job/j", spec=BIG), *later)).groups
    assert group.oldest == CREATED


def test_a_funnel_ends_where_too_few_devices_are_left() -> None:
    cluster = world("not-enough-capacity")
    (group,) = pending(cluster).groups
    detail = pending_detail(cluster, group.id)
    assert [step.is_end for step in detail.funnels[0].steps].count(True) == 1
    assert detail.funnels[0].steps[-1].is_end
    assert detail.nearest is not None
    assert detail.nearest.sentence == str(detail.nearest.miss)


def test_a_step_without_devices_to_lose_does_not_end_a_funnel() -> None:
    """Three devices are requested and two published: the selector ends it, not the first step with fewer than three."""
    cluster = world("two-mistakes")
    (group,) = pending(cluster).groups
    steps = pending_detail(cluster, group.id).funnels[0].steps
    assert [(step.step, step.left) for step in steps if step.is_end] == [("selector", 0)]
    assert any(step.left < 3 and not step.is_end for step in steps)


@pytest.mark.parametrize("place", ["snapshot", "fleet"])
def test_the_next_command_reaches_only_the_cluster_of_the_page(place: Place) -> None:
    own, _ = pod("a")
    missing = replace(own, spec=replace(own.spec, resource_claims=(PodResourceClaim("gpu", resource_claim_name="x"),)))
    cluster = view(*fleet("t4-4x-pcie"), replace(missing, status=PodStatus(phase="Pending")))
    live = replace_fields(cluster, origin=ClusterOrigin("cluster", context="prod"))
    (group,) = pending(cluster).groups
    assert pending_detail(live, group.id).group.next == "kubectl --context prod get resourceclaims -n ml"
    assert pending_detail(replace_fields(live, place=place), group.id).group.next == ""


def test_pods_whose_devices_cannot_be_prepared_are_a_group() -> None:
    own, claim = pod("web-0", "gpu-0", node="t4-4x-pcie-1")
    waiting = replace(own, status=replace(own.status, phase="Pending"))
    event = {
        "involvedObject": {"kind": "Pod", "namespace": "ml", "name": "web-0"},
        "reason": "FailedPrepareDynamicResources",
        "message": "Failed to prepare dynamic resources: DRA driver gpu.nvidia.com is not registered",
    }
    cluster = replace_fields(view(*fleet("t4-4x-pcie"), waiting, claim), events=(event,))
    (group,) = pending(cluster).groups
    assert (group.code, group.count, group.pods) == ("unprepared", 1, ("ml/web-0",))
    assert "DRA driver gpu.nvidia.com is not registered" in group.summary
    assert pending_detail(cluster, group.id).remedies == ()
    assert object_page(cluster, "pod", "ml", "web-0").group == group.id


def test_an_unknown_group_is_an_error() -> None:
    with pytest.raises(InputError, match="no longer pending"):
        pending_detail(world("fits-single"), "0")


def test_a_limit_leaves_the_count_whole() -> None:
    cluster = view(*fleet("t4-4x-pcie"), template(), template("big", BIG), *pod("a"), *pod("b", of="big", spec=BIG))
    screen = pending(cluster, limit=1)
    assert (len(screen.groups), screen.count) == (1, 2)


_MACHINES = fleet("t4-4x-pcie:40")


def _with_waiting_pods(*objects: Object) -> tuple[Object, ...]:
    waiting = (pod("large", spec=request(9)), pod("wrong", spec=request(1, "gpu.nvidia.con")), pod("small"))
    return (*_MACHINES, template(), *objects, *chain.from_iterable(waiting))


def _after(earlier: ClusterView, *objects: Object) -> ClusterView:
    """The next view of a cluster, whose other objects are the same ones."""
    return replace_fields(view(*objects), carried=earlier.carried)


def test_the_groups_of_a_cluster_that_changed_are_those_of_a_new_one() -> None:
    first = view(*_with_waiting_pods())
    before = pending_pods(first).groups
    for node in ("t4-4x-pcie-1", "t4-4x-pcie-2"):
        objects = _with_waiting_pods(*pod("run", "gpu-0", "gpu-1", "gpu-2", "gpu-3", node=node))
        assert pending_pods(_after(first, *objects)).groups == pending_pods(view(*objects)).groups != before
    assert pending_pods(_after(first, *_with_waiting_pods())).groups == before


def test_a_remedy_is_tried_in_an_earlier_view_after_a_later_one() -> None:
    first = view(*_with_waiting_pods())
    groups = [group for group in pending_pods(first).groups if group.first.reasons is not None]
    cluster = view(*_with_waiting_pods())
    expected = [pending_pods(cluster).after(each.first, _first_changes(each)) for each in groups]
    pending(_after(first, *fleet("dgx-a100-40gb")))
    assert [pending_pods(first).after(each.first, _first_changes(each)) for each in groups] == expected


def _first_changes(group: PendingGroup) -> Sequence[SuggestedChange]:
    reasons = group.first.reasons
    assert reasons is not None
    return reasons.headline.changes


def test_the_slices_of_unchanged_nodes_are_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    put_slice = Inventory.put_slice

    def counted(inventory: Inventory, slice_: ResourceSlice) -> None:
        read.append(slice_.metadata.name)
        put_slice(inventory, slice_)

    monkeypatch.setattr(Inventory, "put_slice", counted)
    objects = _with_waiting_pods()
    first = view(*objects)
    pending(first)
    assert len(read) > 40
    read.clear()
    pending(_after(first, *objects, *pod("run", "gpu-0", node="t4-4x-pcie-7")))
    assert 0 < len(set(read)) <= 2, "that of the changed node, and the first of the others"
