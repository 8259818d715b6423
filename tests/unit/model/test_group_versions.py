"""Conversion of PodGroups and Workloads between versions."""

from __future__ import annotations

import pytest

from allotment.model.group_versions import from_hub, patch_from_hub, to_hub
from allotment.model.trees import Tree

OLD, HUB, ALPHA = (f"scheduling.k8s.io/{version}" for version in ("v1alpha2", "v1beta1", "v1alpha3"))
CLAIMS = [{"name": "gpu", "resourceClaimTemplateName": "t"}]
OLD_GROUP: Tree = {
    "apiVersion": OLD,
    "kind": "PodGroup",
    "metadata": {"name": "g"},
    "spec": {
        "podGroupTemplateRef": {"workload": {"workloadName": "w", "podGroupTemplateName": "t"}},
        "schedulingPolicy": {"gang": {"minCount": 2}}, "resourceClaims": CLAIMS, "disruptionMode": "PodGroup",
    },
    "status": {"conditions": [{"type": "PodGroupScheduled", "status": "True"}, {"type": "DisruptionTarget"}]},
}  # fmt: skip
GROUP: Tree = {
    "apiVersion": HUB,
    "kind": "PodGroup",
    "metadata": {"name": "g"},
    "spec": {
        "schedulingPolicy": {"gang": {"minCount": 2}}, "resourceClaims": CLAIMS, "disruptionMode": {"all": {}},
        "workloadRef": {"workloadName": "w", "templateName": "t"},
    },
    "status": {"conditions": [{"type": "PodGroupInitiallyScheduled", "status": "True"}, {"type": "DisruptionTarget"}]},
}  # fmt: skip


def workload(version: str, mode: object) -> Tree:
    template = {"name": "t", "schedulingPolicy": {"basic": {}}, "schedulingConstraints": None, "disruptionMode": mode}
    return {"apiVersion": version, "kind": "Workload", "spec": {"podGroupTemplates": [template]}}


@pytest.mark.parametrize(
    ("old", "new"),
    [(OLD_GROUP, GROUP), (workload(OLD, "Pod"), workload(HUB, {"single": {}}))],
    ids=["group", "workload"],
)
def test_v1alpha2_is_converted_to_the_hub_and_back(old: Tree, new: Tree) -> None:
    assert to_hub(old) == new
    assert from_hub(new, OLD) == old


def test_v1alpha3_differs_only_in_its_name() -> None:
    assert from_hub(GROUP, ALPHA) == {**GROUP, "apiVersion": ALPHA}
    assert to_hub({**GROUP, "apiVersion": ALPHA}) == GROUP


def test_other_kinds_are_unchanged() -> None:
    queue = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "Workload", "spec": {"podGroupTemplateRef": {}}}
    assert to_hub(queue) is queue
    assert to_hub({"apiVersion": "v1", "kind": "Pod"}) == {"apiVersion": "v1", "kind": "Pod"}


def test_v1alpha2_has_no_composite_groups() -> None:
    spec = {"schedulingPolicy": {"basic": {}}, "parentCompositePodGroupName": "c", "preemptionPolicy": "Never"}
    assert from_hub({**GROUP, "spec": spec}, OLD)["spec"] == {"schedulingPolicy": {"basic": {}}}


def test_an_unset_reference_stays_unset() -> None:
    """v1alpha2 prints it as null."""
    old = {**OLD_GROUP, "spec": {"podGroupTemplateRef": None, "schedulingPolicy": {"basic": {}}}}
    assert to_hub(old)["spec"] == {"schedulingPolicy": {"basic": {}}, "workloadRef": None}


def test_merge_patches_are_converted_like_objects() -> None:
    patch: Tree = {"spec": {"workloadRef": None, "disruptionMode": {"single": None, "all": {}}}}
    assert patch_from_hub(patch, "PodGroup", OLD) == {
        "spec": {"podGroupTemplateRef": None, "disruptionMode": "PodGroup"}
    }
    assert patch_from_hub({"apiVersion": HUB}, "PodGroup", ALPHA) == {"apiVersion": ALPHA}


def test_json_patches_cannot_change_fields_that_have_another_form() -> None:
    count = [{"op": "replace", "path": "/spec/schedulingPolicy/gang/minCount", "value": 3}]
    assert patch_from_hub(count, "PodGroup", OLD) == count
    mode = [{"op": "remove", "path": "/spec/disruptionMode"}]
    assert patch_from_hub(mode, "PodGroup", HUB) == mode
    with pytest.raises(ValueError, match="/spec/disruptionMode: v1alpha2 has this field in another form"):
        patch_from_hub(mode, "PodGroup", OLD)


@pytest.mark.parametrize(
    "spec",
    [
        {"disruptionMode": {}}, {"disruptionMode": ["Pod"]}, {"podGroupTemplates": ["t"]}, {"podGroupTemplates": "t"},
        {"podGroupTemplates": [{"disruptionMode": {}}]}, {"podGroupTemplateRef": "t"},
        {"podGroupTemplateRef": {"workload": "w"}}, {"podGroupTemplateRef": {"workload": ["w"]}}, "spec", [],
    ],
    ids=str,
)  # fmt: skip
def test_values_of_a_wrong_type_are_kept(spec: object) -> None:
    """They come from files; other code reports them."""
    old = {"apiVersion": OLD, "kind": "Workload", "spec": spec, "status": {"conditions": ["c", None]}}
    new = to_hub(old)
    assert new["status"] == old["status"]
    assert from_hub(new, OLD)["status"] == old["status"]
    assert from_hub({**old, "spec": {"workloadRef": "w", "disruptionMode": "Pod"}}, OLD)["kind"] == "Workload"
