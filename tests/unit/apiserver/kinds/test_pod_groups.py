"""Workloads, PodGroups and CompositePodGroups of 1.37: defaults, admission, gates, validation."""

from __future__ import annotations

from typing import Any

import pytest

from allotment.apiserver.built_in_kinds import built_in_kinds
from allotment.apiserver.kinds.kind import KindRules, Write
from allotment.cluster.errors import StatusError
from allotment.model.features import Features
from allotment.model.fields import shape_of
from allotment.model.normal_form import normalize
from allotment.model.pod_groups import FINALIZER
from allotment.model.trees import Tree
from tests.unit.apiserver.shelf import NOW, Shelf, row, shown, write

ALL = {
    "GenericWorkload": True, "DRAWorkloadResourceClaims": True, "TopologyAwareWorkloadScheduling": True,
    "CompositePodGroup": True, "PodGroupPreemptionPolicy": True,
}  # fmt: skip
EVERY_VERSION = ("api/all=true",)
ON = Features("1.37", ALL)
ONLY_GROUPS = Features("1.37", {"GenericWorkload": True})
GANG: Tree = {"gang": {"minCount": 2}}
BASIC: Tree = {"basic": {}}
REFERENCE: Tree = {"workloadName": "w", "templateName": "t"}
SINGLE: Tree = {"single": {}}


def rules(kind: str, features: Features = ON) -> KindRules:
    [found] = [served.rules for served in built_in_kinds(features, EVERY_VERSION) if served.kind == kind]
    return found


def context(features: Features, *, subresource: str = "", shelf: Shelf | None = None) -> Write:
    return write(shelf, subresource=subresource)._replace(features=features)


def normal(kind: str, spec: Tree, **more: Any) -> Tree:
    version = "v1alpha3" if kind == "CompositePodGroup" else "v1beta1"
    metadata = {"name": "g", "namespace": "ns", "uid": "u"}
    tree = {"kind": kind, "apiVersion": f"scheduling.k8s.io/{version}", "metadata": metadata, "spec": spec, **more}
    return normalize(tree, shape_of(tree["apiVersion"], kind, "1.37"))


def created(kind: str, spec: Tree, features: Features = ON, shelf: Shelf | None = None) -> tuple[Tree, list[str]]:
    """The spec of a new object, and its errors."""
    made, about = rules(kind, features), context(features, shelf=shelf)
    tree = normal(kind, made.default(normal(kind, spec), None)["spec"])
    tree = made.drop_disabled(made.admit(made.prepare_create(tree, about), about), None, about)
    return tree, shown(made.validate_create(tree, about))


def changed(kind: str, new: Tree, old: Tree, features: Features = ON) -> list[str]:
    made, about = rules(kind, features), context(features)
    before = normal(kind, made.default(normal(kind, old), None)["spec"])
    after = normal(kind, made.default(normal(kind, new), before)["spec"])
    after = made.drop_disabled(made.admit_update(after, before, about), before, about)
    return shown(made.validate_update(after, before, about))


def template(name: str = "t", **more: Any) -> Tree:
    return {"name": name, "schedulingPolicy": BASIC, **more}


def composite(name: str, *, groups: tuple[Tree, ...] = (), composites: tuple[Tree, ...] = (), **more: Any) -> Tree:
    lists = {"podGroupTemplates": list(groups), "compositePodGroupTemplates": list(composites)}
    policy = {"gang": {"minGroupCount": 1}}
    return {"name": name, "schedulingPolicy": policy, **{key: value for key, value in lists.items() if value}, **more}


# --- defaults and admission ------------------------------------------------------------------------------------------


def test_a_group_gets_defaults_a_priority_and_a_finalizer() -> None:
    group, errors = created("PodGroup", {"schedulingPolicy": GANG})
    assert errors == []
    assert group["metadata"]["finalizers"] == [FINALIZER]
    assert group["spec"] == {
        "schedulingPolicy": GANG, "disruptionMode": SINGLE, "priority": 0, "preemptionPolicy": "PreemptLowerPriority",
    }  # fmt: skip


def test_a_composite_group_gets_a_priority_and_no_finalizer() -> None:
    spec = {"schedulingPolicy": {"gang": {"minGroupCount": 2}}, "workloadRef": REFERENCE}
    group, errors = created("CompositePodGroup", spec)
    assert errors == []
    assert "finalizers" not in group["metadata"]
    assert (group["spec"]["priority"], group["spec"]["disruptionMode"]) == (0, SINGLE)


def test_a_group_has_the_priority_of_its_class() -> None:
    urgent = {"metadata": {"name": "urgent"}, "value": 7, "preemptionPolicy": "PreemptLowerPriority"}
    shelf = Shelf([("priorityclasses.scheduling.k8s.io", urgent)])
    group, _ = created("PodGroup", {"schedulingPolicy": BASIC, "priorityClassName": "urgent"}, shelf=shelf)
    assert group["spec"]["priority"] == 7


@pytest.mark.parametrize(
    ("kind", "spec", "reason"),
    [
        ("PodGroup", {"priorityClassName": "nope"}, "no PriorityClass with name nope was found"),
        (
            "PodGroup",
            {"priority": 5},
            (
                "priority set in the pod group (5) must match the priority computed (0) based on the priority class "
                "set in the spec"
            ),
        ),
        (
            "CompositePodGroup",
            {"preemptionPolicy": "Never"},
            (
                "the string value of PreemptionPolicy (Never) must not be provided in composite pod group spec; "
                "priority admission controller computed PreemptLowerPriority from the given PriorityClass name"
            ),
        ),
    ],
)
def test_a_group_with_another_priority_than_its_class_is_rejected(kind: str, spec: Tree, reason: str) -> None:
    with pytest.raises(StatusError) as raised:
        created(kind, {"schedulingPolicy": BASIC, **spec})
    assert raised.value.code == 403
    assert str(raised.value) == f'{kind.lower()}s.scheduling.k8s.io "g" is forbidden: {reason}'


def test_a_class_that_forbids_preemption_contradicts_the_default_policy() -> None:
    """The policy is defaulted before admission compares it with the class."""
    patient = {"metadata": {"name": "patient"}, "value": 1, "preemptionPolicy": "Never"}
    shelf = Shelf([("priorityclasses.scheduling.k8s.io", patient)])
    spec = {"schedulingPolicy": BASIC, "priorityClassName": "patient"}
    with pytest.raises(StatusError, match=r"\(PreemptLowerPriority\) must not be provided"):
        created("PodGroup", spec, shelf=shelf)
    assert created("PodGroup", spec, ONLY_GROUPS, shelf)[0]["spec"]["priority"] == 1


# --- gates -----------------------------------------------------------------------------------------------------------


GATED: Tree = {
    "parentCompositePodGroupName": "c", "schedulingConstraints": {"topology": [{"key": "rack"}]},
    "resourceClaims": [{"name": "a", "resourceClaimName": "c"}], "preemptionPolicy": "Never",
}  # fmt: skip


def test_fields_of_disabled_gates_are_dropped() -> None:
    group, errors = created("PodGroup", {"schedulingPolicy": BASIC, "workloadRef": REFERENCE, **GATED}, ONLY_GROUPS)
    assert errors == []
    assert set(group["spec"]) == {"workloadRef", "schedulingPolicy", "disruptionMode", "priority"}


def test_fields_that_were_stored_while_their_gates_were_on_stay() -> None:
    old = {"schedulingPolicy": GANG, "disruptionMode": SINGLE, "workloadRef": REFERENCE, **GATED}
    changed_count = {**old, "schedulingPolicy": {"gang": {"minCount": 3}}}
    assert changed("PodGroup", changed_count, old, ONLY_GROUPS) == []
    assert changed("PodGroup", {**old, "preemptionPolicy": "PreemptLowerPriority"}, old, ONLY_GROUPS) == [
        "spec.preemptionPolicy: Forbidden",
        "spec.preemptionPolicy: Invalid value: null: field is immutable",
    ]


def test_templates_of_a_workload_lose_the_fields_of_disabled_gates() -> None:
    gated = {name: value for name, value in GATED.items() if name != "parentCompositePodGroupName"}
    workload, errors = created("Workload", {"podGroupTemplates": [template(**gated)]}, ONLY_GROUPS)
    assert errors == []
    [found] = workload["spec"]["podGroupTemplates"]
    assert list(found.items()) == [*template().items(), ("schedulingConstraints", None)]


def test_messages_contain_templates_without_the_fields_of_disabled_gates() -> None:
    several = [template(schedulingConstraints={}), template(schedulingConstraints={}, disruptionMode=SINGLE)]
    assert created("Workload", {"podGroupTemplates": several}, ONLY_GROUPS)[1] == [
        (
            'spec.podGroupTemplates[1]: Duplicate value: {"name":"t","schedulingPolicy":{"basic":{}},'
            '"schedulingConstraints":null,"disruptionMode":{"single":{}}}'
        )
    ]


def test_composite_templates_need_their_gate() -> None:
    spec = {"compositePodGroupTemplates": [composite("c", groups=(template(),))]}
    assert created("Workload", spec)[1] == []
    assert created("Workload", spec, ONLY_GROUPS)[1] == [
        'spec: Invalid value: "": must specify one of: `podGroupTemplates`, `compositePodGroupTemplates`'
    ]


def test_claims_in_a_status_need_their_gate() -> None:
    group = normal("PodGroup", {"schedulingPolicy": BASIC})
    status = {**group, "status": {"resourceClaimStatuses": [{"name": "a"}]}}
    about = context(ONLY_GROUPS, subresource="status")
    assert rules("PodGroup", ONLY_GROUPS).drop_disabled(status, group, about)["status"] == {}


def test_only_enabled_kinds_are_served() -> None:
    def kinds(**gates: bool) -> list[str]:
        served = built_in_kinds(Features("1.37", gates), EVERY_VERSION)
        return [kind.kind for kind in served if kind.group == "scheduling.k8s.io"]

    assert kinds() == ["PriorityClass"]
    assert kinds(GenericWorkload=True) == ["PriorityClass", "PodGroup", "Workload"]
    assert "CompositePodGroup" in kinds(**ALL)


# --- new objects -----------------------------------------------------------------------------------------------------

ONE_POLICY = "must specify one of: `basic`, `gang`"


@pytest.mark.parametrize(
    ("spec", "errors"),
    [
        ({}, [f'spec.schedulingPolicy: Invalid value: "": {ONE_POLICY}']),
        (
            {"schedulingPolicy": {**BASIC, **GANG}},
            ['spec.schedulingPolicy: Invalid value: "{basic, gang}": must specify exactly one of: `basic`, `gang`'],
        ),
        ({"schedulingPolicy": {"gang": {}}}, ["spec.schedulingPolicy.gang.minCount: Required value"]),
        (
            {"schedulingPolicy": {"gang": {"minCount": -1}}},
            ["spec.schedulingPolicy.gang.minCount: Invalid value: -1: must be greater than or equal to 1"],
        ),
        (
            {"schedulingPolicy": BASIC, "parentCompositePodGroupName": "c"},
            ["spec.workloadRef: Required value: must be set when parentCompositePodGroupName is set"],
        ),
        (
            {"schedulingPolicy": BASIC, "workloadRef": {}},
            ["spec.workloadRef.workloadName: Required value", "spec.workloadRef.templateName: Required value"],
        ),
        (
            {"schedulingPolicy": BASIC, "disruptionMode": {}},
            ['spec.disruptionMode: Invalid value: "": must specify one of: `single`, `all`'],
        ),
        (
            {"schedulingPolicy": BASIC, "schedulingConstraints": {"topology": [{"key": "a"}, {"key": "b"}]}},
            ["spec.schedulingConstraints.topology: Too many: 2: must have at most 1 item"],
        ),
        (
            {"schedulingPolicy": BASIC, "resourceClaims": [{"name": "a", "resourceClaimName": "c"}] * 2},
            ['spec.resourceClaims[1]: Duplicate value: {"name":"a","resourceClaimName":"c"}'],
        ),
    ],
)
def test_invalid_groups(spec: Tree, errors: list[str]) -> None:
    assert created("PodGroup", spec)[1] == errors


def test_a_system_class_has_a_priority_that_groups_cannot_have() -> None:
    system = {"metadata": {"name": "system-node-critical"}, "value": 2000001000}
    shelf = Shelf([("priorityclasses.scheduling.k8s.io", system)])
    spec = {"schedulingPolicy": BASIC, "priorityClassName": "system-node-critical"}
    assert created("PodGroup", spec, shelf=shelf)[1] == [
        "spec.priority: Invalid value: 2000001000: must be less than or equal to 1000000000"
    ]


def test_a_composite_group_needs_its_workload() -> None:
    assert created("CompositePodGroup", {})[1] == [
        "spec.workloadRef: Required value",
        f'spec.schedulingPolicy: Invalid value: "": {ONE_POLICY}',
    ]


@pytest.mark.parametrize(
    ("spec", "errors"),
    [
        ({"podGroupTemplates": [template(preemptionPolicy="Never", priorityClassName="nope")]}, []),
        (
            {"podGroupTemplates": [template(str(number)) for number in range(9)]},
            ["spec.podGroupTemplates: Too many: 9: must have at most 8 items"],
        ),
        (
            {"podGroupTemplates": [template(), template()]},
            [
                (
                    'spec.podGroupTemplates[1]: Duplicate value: {"name":"t","schedulingPolicy":{"basic":{}},'
                    '"schedulingConstraints":null}'
                )
            ],
        ),
        (
            {"podGroupTemplates": [template(preemptionPolicy="Sometimes")]},
            [
                (
                    'spec.podGroupTemplates[0].preemptionPolicy: Unsupported value: "Sometimes": supported values: '
                    '"Never", "PreemptLowerPriority"'
                )
            ],
        ),
        (
            {"podGroupTemplates": [template()], "controllerRef": {"apiGroup": "batch", "kind": "a/b"}},
            [
                "spec.controllerRef.kind: Invalid value: \"a/b\": may not contain '/'",
                "spec.controllerRef.name: Required value",
            ],
        ),
        (
            {"podGroupTemplates": [{"name": "t"}]},
            [f'spec.podGroupTemplates[0].schedulingPolicy: Invalid value: "": {ONE_POLICY}'],
        ),
        (
            {"compositePodGroupTemplates": [composite("c", groups=(template("c"),))]},
            ['spec.compositePodGroupTemplates[0].podGroupTemplates[0].name: Duplicate value: "c"'],
        ),
    ],
)
def test_workloads(spec: Tree, errors: list[str]) -> None:
    assert created("Workload", spec)[1] == errors


# --- updates ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("new", "errors"),
    [
        ({"schedulingPolicy": {"gang": {"minCount": 5}}}, []),
        ({"schedulingPolicy": {"gang": {"minCount": 0}}}, ["spec.schedulingPolicy.gang.minCount: Required value"]),
        (
            {"schedulingPolicy": BASIC},
            [
                "spec.schedulingPolicy.basic: Invalid value: null: field is immutable",
                "spec.schedulingPolicy.gang: Invalid value: null: field cannot be cleared once set",
            ],
        ),
        ({"workloadRef": REFERENCE}, ["spec.workloadRef: Invalid value: null: field is immutable"]),
        ({"disruptionMode": {"all": {}}}, ["spec.disruptionMode: Invalid value: null: field is immutable"]),
        ({"priority": 3}, ["spec.priority: Invalid value: null: field is immutable"]),
        (
            {"resourceClaims": [{"name": "a", "resourceClaimName": "c"}]},
            ["spec.resourceClaims: Invalid value: null: field is immutable"],
        ),
    ],
)
def test_only_the_minimum_count_of_a_group_can_change(new: Tree, errors: list[str]) -> None:
    old = {"schedulingPolicy": GANG}
    assert changed("PodGroup", {**old, **new}, old) == errors


def test_a_composite_group_cannot_change() -> None:
    old = {"schedulingPolicy": {"gang": {"minGroupCount": 2}}, "workloadRef": REFERENCE}
    new = {**old, "schedulingPolicy": {"gang": {"minGroupCount": 3}}}
    assert changed("CompositePodGroup", new, old) == ["spec.schedulingPolicy: Invalid value: null: field is immutable"]


def test_templates_stay_and_keep_all_but_the_minimum_count() -> None:
    old = {"podGroupTemplates": [template("a", schedulingPolicy=GANG), template("b")]}

    def errors(*templates: Tree) -> list[str]:
        return changed("Workload", {"podGroupTemplates": list(templates)}, old)

    more = template("a", schedulingPolicy={"gang": {"minCount": 9}})
    assert errors(template("b"), more) == []
    assert errors(more) == ["spec.podGroupTemplates: Forbidden: item may not be removed"]
    assert errors(more, template("b"), template("c")) == ["spec.podGroupTemplates[2]: Forbidden: item may not be added"]
    assert errors(more, template("b", priority=4)) == [
        "spec: Invalid value: null: detected multiple priority configurations",
        "spec.podGroupTemplates[1].priority: Invalid value: null: field is immutable",
    ]


def test_a_status_names_claims_of_the_group() -> None:
    claims = [{"name": "a", "resourceClaimTemplateName": "t"}]
    group = normal("PodGroup", {"schedulingPolicy": BASIC, "resourceClaims": claims})
    condition = {"type": "x", "status": "True", "reason": "R", "lastTransitionTime": NOW}
    claim_statuses = [{"name": "a", "resourceClaimName": "A_"}, {"name": "b"}]
    status = {"conditions": [condition, condition], "resourceClaimStatuses": claim_statuses}
    new = {**group, "status": status, "metadata": {**group["metadata"], "labels": {"a": "b"}}}
    about = context(ON, subresource="status")
    made = rules("PodGroup")
    assert "labels" not in made.prepare_update(new, group, about)["metadata"]
    first, second, third = shown(made.validate_update(new, group, about))
    assert first == 'status.conditions[1]: Duplicate value: "x"'
    assert second.startswith('status.resourceClaimStatuses[1].name: Invalid value: "b": must match the name of an')
    assert third.startswith('status.resourceClaimStatuses[0].resourceClaimName: Invalid value: "A_"')


# --- tables ----------------------------------------------------------------------------------------------------------


def cells(kind: str, spec: Tree, *conditions: tuple[str, str, str], features: Features = ON) -> list[Any]:
    """The table row of an object without name and age."""
    [served] = [found for found in built_in_kinds(features, EVERY_VERSION) if found.kind == kind]
    listed = [{"type": type, "status": status, "reason": reason} for type, status, reason in conditions]
    version = f"scheduling.k8s.io/{served.versions[0]}"
    tree = {"apiVersion": version, "kind": kind, "metadata": {"name": "g"}, "spec": spec}
    return list(row(served, {**tree, "status": {"conditions": listed}}).values())[1:-1]


def test_tables() -> None:
    scheduled, failed = (("PodGroupInitiallyScheduled", status, "R") for status in ("True", "False"))
    preempted = ("DisruptionTarget", "True", "PreemptionByScheduler")
    spec = {"schedulingPolicy": GANG, "workloadRef": REFERENCE}
    assert cells("PodGroup", {"schedulingPolicy": BASIC}) == ["Basic", "<none>", "Pending"]
    assert cells("PodGroup", spec, scheduled) == ["Gang", "w", "Scheduled"]
    assert cells("PodGroup", spec, failed) == ["Gang", "w", "Unschedulable"]
    assert cells("PodGroup", spec, scheduled, preempted) == ["Gang", "w", "PreemptionByScheduler"]
    assert cells("CompositePodGroup", {**spec, "schedulingPolicy": BASIC}) == ["Basic", "w"]
    assert cells("Workload", {}) == []


def test_the_table_of_1_36_has_its_names() -> None:
    features = Features("1.36", {"GenericWorkload": True})
    reference = {"workload": {"workloadName": "w", "podGroupTemplateName": "t"}}
    spec = {"schedulingPolicy": GANG, "podGroupTemplateRef": reference}
    condition = ("PodGroupScheduled", "True", "")
    assert cells("PodGroup", spec, condition, features=features) == ["Gang", "w", "Scheduled"]
