"""Rules for the templates of a Workload that span several templates."""

from __future__ import annotations

from typing import Any

import pytest

from allotment.model.trees import Tree
from allotment.model.validation.workload_templates import workload_templates

SEVERAL = "all priority and priorityClassName values must be identical, detected multiple values"


def group(name: str = "t", **more: Any) -> Tree:
    return {"name": name, "schedulingPolicy": {"basic": {}}, **more}


def composite(name: str, *children: Tree, **more: Any) -> Tree:
    """A composite template; children with a gang of groups are composite."""
    composites = [child for child in children if "gang" in child["schedulingPolicy"]]
    groups = [child for child in children if child not in composites]
    policy = {"gang": {"minGroupCount": 1}}
    lists = {"podGroupTemplates": groups, "compositePodGroupTemplates": composites}
    return {"name": name, "schedulingPolicy": policy, **{key: value for key, value in lists.items() if value}, **more}


def errors(*templates: Tree) -> list[str]:
    """The errors of a Workload with composite templates."""
    return list(map(str, workload_templates({"compositePodGroupTemplates": list(templates)}, "spec")))


def test_a_tree_has_at_most_four_levels() -> None:
    assert errors(composite("a", composite("b", composite("c", group())))) == []
    [error] = errors(composite("a", composite("b", composite("c", composite("d", group(priority=None))))))
    assert error.startswith('spec.compositePodGroupTemplates[0]: Invalid value: [{"Name":"b","SchedulingPolicy":')
    assert '{"Name":"t","SchedulingPolicy":{"Basic":{},"Gang":null},"SchedulingConstraints":null,' in error
    assert error.endswith(": maximum template hierarchy depth is 4")


def test_values_in_messages_have_the_fields_of_internal_types() -> None:
    claims = [{"name": "c", "resourceClaimName": "x"}]
    constraints = {"topology": [{"key": "rack"}]}
    leaf = group(resourceClaims=claims, disruptionMode={"all": {}}, priority=3, schedulingConstraints=constraints)
    [error, *_] = errors(composite("a", composite("b", composite("c", composite("d", leaf, priority=3)))))
    assert (
        '"SchedulingConstraints":{"Topology":[{"Key":"rack"}]},"ResourceClaims":[{"Name":"c","ResourceClaimName":"x",'
        '"ResourceClaimTemplateName":null}],"DisruptionMode":{"Single":null,"All":{}},"PriorityClassName":"",'
        '"Priority":3,"PreemptionPolicy":null}'
    ) in error


def test_an_empty_list_that_is_written_is_not_null() -> None:
    leaf = group(resourceClaims=[])
    [error, *_] = errors(composite("a", composite("b", composite("c", composite("d", leaf)))))
    assert '"ResourceClaims":[]' in error


@pytest.mark.parametrize(
    ("templates", "path"),
    [
        ([composite("t", group())], "spec.compositePodGroupTemplates[0].podGroupTemplates[0].name"),
        (
            [composite("a", group()), composite("b", group())],
            "spec.compositePodGroupTemplates[1].podGroupTemplates[0].name",
        ),
        (
            [composite("a", composite("b", group("a")))],
            "spec.compositePodGroupTemplates[0].compositePodGroupTemplates[0].podGroupTemplates[0].name",
        ),
        (
            [composite("a", group(), composite("t", group("u")))],
            "spec.compositePodGroupTemplates[0].compositePodGroupTemplates[0].name",
        ),
    ],
)
def test_names_are_unique_in_the_whole_tree(templates: list[Tree], path: str) -> None:
    [error] = errors(*templates)
    assert error.startswith(f"{path}: Duplicate value: ")


def test_names_of_one_list_are_left_to_its_declared_key() -> None:
    assert errors(composite("a", group(), group())) == []


def test_a_composite_template_has_a_child() -> None:
    text = "must have at least one child PodGroupTemplate or CompositePodGroupTemplate"
    inner = "spec.compositePodGroupTemplates[0].compositePodGroupTemplates[0]"
    assert errors(composite("a", composite("b"))) == [f'{inner}: Invalid value: "b": {text}']


def test_all_templates_have_the_same_priority() -> None:
    def plain(*templates: Tree) -> list[str]:
        return list(map(str, workload_templates({"podGroupTemplates": list(templates)}, "spec")))

    several = "spec: Invalid value: null: detected multiple priority configurations"
    assert plain(group("a", priority=1), group("b", priority=1)) == []
    assert plain(group("a", priority=0), group("b")) == [several]
    assert plain(group("a", priorityClassName="x"), group("b", priorityClassName="y")) == [several]
    assert errors(composite("a", group(priority=1))) == [f"spec: Invalid value: null: {SEVERAL}"]
    assert errors(composite("a", group(priority=1), priority=1)) == []
