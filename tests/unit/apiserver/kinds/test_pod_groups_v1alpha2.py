"""Admission and validation of PodGroups of v1alpha2."""

from __future__ import annotations

from typing import Any

import pytest

from allotment.apiserver.built_in_kinds import built_in_kinds
from allotment.cluster.errors import StatusError
from allotment.model.features import Features
from allotment.model.pod_groups import FINALIZER, GATE
from allotment.model.trees import Tree
from tests.unit.apiserver.shelf import Shelf, shown, write

FEATURES = Features("1.36", {GATE: True})
[RULES] = [kind.rules for kind in built_in_kinds(FEATURES, ["api/all=true"]) if kind.kind == "PodGroup"]


def group(**spec: Any) -> Tree:
    full = {"schedulingPolicy": {"gang": {"minCount": 2}}, **spec}
    return {"metadata": {"name": "g", "namespace": "ns", "uid": "u"}, "spec": full}


def entry(name: str = "gpu", **more: Any) -> Tree:
    return {"name": name, **(more or {"resourceClaimTemplateName": "t"})}


def created(tree: Tree, shelf: Shelf | None = None) -> tuple[Tree, list[str]]:
    context = write(shelf)
    result = RULES.admit(RULES.prepare_create(tree, context), context)
    return result, shown(RULES.validate_create(result, context))


def changed(new: Tree, old: Tree, subresource: str = "") -> list[str]:
    context = write(subresource=subresource)
    return shown(RULES.validate_update(RULES.prepare_update(new, old, context), old, context))


def test_a_group_gets_a_finalizer() -> None:
    result, errors = created(group(resourceClaims=[entry()]))
    assert errors == []
    assert result["metadata"]["finalizers"] == [FINALIZER]
    assert created(result)[0]["metadata"]["finalizers"] == [FINALIZER]


def test_fields_of_other_gates_are_dropped() -> None:
    result, errors = created(group(priority=3, disruptionMode="Pod", schedulingConstraints={"topology": []}))
    assert (errors, set(result["spec"])) == ([], {"schedulingPolicy"})


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        ({"schedulingPolicy": {}}, 'spec.schedulingPolicy: Invalid value: "": must specify one of: `basic`, `gang`'),
        (
            {"schedulingPolicy": {"basic": {}, "gang": {"minCount": 1}}},
            'spec.schedulingPolicy: Invalid value: "{basic, gang}": must specify exactly one of: `basic`, `gang`',
        ),
        ({"schedulingPolicy": {"gang": {}}}, "spec.schedulingPolicy.gang.minCount: Required value"),
        (
            {"schedulingPolicy": {"gang": {"minCount": -1}}},
            "spec.schedulingPolicy.gang.minCount: Invalid value: -1: must be greater than or equal to 1",
        ),
        (
            {"resourceClaims": [entry(str(number)) for number in range(5)]},
            "spec.resourceClaims: Too many: 5: must have at most 4 items",
        ),
        (
            {"resourceClaims": [entry(), entry()]},
            'spec.resourceClaims[1]: Duplicate value: {"name":"gpu","resourceClaimTemplateName":"t"}',
        ),
        ({"resourceClaims": [entry("")]}, "spec.resourceClaims[0].name: Required value"),
        (
            {"resourceClaims": [{"name": "gpu"}]},
            (
                'spec.resourceClaims[0]: Invalid value: "": must specify one of: `resourceClaimName`, '
                "`resourceClaimTemplateName`"
            ),
        ),
        (
            {"resourceClaims": [entry(resourceClaimName="a", resourceClaimTemplateName="b")]},
            (
                'spec.resourceClaims[0]: Invalid value: "{resourceClaimName, resourceClaimTemplateName}": must specify '
                "exactly one of: `resourceClaimName`, `resourceClaimTemplateName`"
            ),
        ),
        ({"podGroupTemplateRef": {}}, 'spec.podGroupTemplateRef: Invalid value: "": must specify one of: `workload`'),
    ],
)
def test_invalid_groups(spec: Tree, error: str) -> None:
    assert created(group(**spec))[1] == [error]


def test_claim_names_are_labels_and_object_names_are_subdomains() -> None:
    errors = created(group(resourceClaims=[entry("A", resourceClaimName="B")]))[1]
    assert [error.partition(":")[0] for error in errors] == [
        "spec.resourceClaims[0].name", "spec.resourceClaims[0].resourceClaimName"
    ]  # fmt: skip


def test_the_referenced_template_must_exist() -> None:
    tree = group(podGroupTemplateRef={"workload": {"workloadName": "w", "podGroupTemplateName": "t"}})
    with pytest.raises(StatusError, match='"g" is forbidden: PodGroup rejected: Workload "w" not found'):
        created(tree)
    workload = {"metadata": {"name": "w", "namespace": "ns"}, "spec": {"podGroupTemplates": [{"name": "s"}]}}
    with pytest.raises(StatusError, match='PodGroupTemplate "t" not found in Workload "w"'):
        created(tree, Shelf([("workloads.scheduling.k8s.io", workload)]))
    workload["spec"] = {"podGroupTemplates": [{"name": "t"}]}
    assert created(tree, Shelf([("workloads.scheduling.k8s.io", workload)]))[1] == []


def test_policy_and_claims_are_immutable() -> None:
    old = group(resourceClaims=[entry()])
    assert changed(group(resourceClaims=[entry()]), old) == []
    assert changed(group(resourceClaims=[entry("other")]), old) == [
        "spec.resourceClaims: Invalid value: null: field is immutable"
    ]
    assert changed(group(schedulingPolicy={"basic": {}}, resourceClaims=[entry()]), old) == [
        "spec.schedulingPolicy: Invalid value: null: field is immutable"
    ]


def test_claim_statuses_must_match_claims_of_the_spec() -> None:
    old = group(resourceClaims=[entry()])
    status = {"name": "gpu", "resourceClaimName": "g-gpu-x"}
    assert changed({**old, "status": {"resourceClaimStatuses": [status]}}, old, "status") == []
    wrong = {**old, "status": {"resourceClaimStatuses": [{**status, "name": "nic"}]}}
    assert changed(wrong, old, "status") == [
        (
            'status.resourceClaimStatuses[0].name: Invalid value: "nic": must match the name of an entry in '
            "`spec.resourceClaims`"
        )
    ]
