"""Server-side apply: merging, owners, conflicts, removal."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.apiserver.writes.last_applied import ANNOTATION
from allotment.apiserver.writes.managed_fields import only_times_differ, updated_entries
from allotment.apiserver.writes.server_side_apply import apply
from allotment.cluster.errors import StatusError
from allotment.model.fields import shape_of
from allotment.model.normal_form import normalize
from allotment.model.trees import Tree

NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"


def applied(live: Tree | None, tree: Tree, manager: str = "m", *, force: bool = False, now: str = NOW) -> Tree:
    shape = shape_of(tree["apiVersion"], tree["kind"])
    result = apply(live, tree, shape, manager=manager, api_version=tree["apiVersion"], force=force, now=now)
    if result is live:
        return result
    result = normalize(result, shape)
    return live if live is not None and only_times_differ(live, result) else result


def config_map(data: Tree | None = None, **rest: Any) -> Tree:
    tree: Tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, **rest}
    return tree if data is None else {**tree, "data": data}


def deployment(*containers: Tree, **spec: Any) -> Tree:
    template = {"spec": {"containers": list(containers)}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {**spec, "template": template},
    }


def containers(tree: Tree) -> list[Tree]:
    result: list[Tree] = tree["spec"]["template"]["spec"]["containers"]
    return result


def owners(tree: Tree) -> dict[str, Tree]:
    return {entry["manager"]: entry["fieldsV1"] for entry in tree["metadata"].get("managedFields", ())}


def refusal(live: Tree | None, tree: Tree, manager: str = "m") -> tuple[int, str]:
    with pytest.raises(StatusError) as refused:
        applied(live, tree, manager)
    return refused.value.code, refused.value.status["message"]


def test_the_first_apply_owns_its_fields() -> None:
    tree = applied(None, config_map({"x": "1"}))
    assert tree["data"] == {"x": "1"}
    assert tree["metadata"]["managedFields"] == [
        {
            "manager": "m",
            "operation": "Apply",
            "apiVersion": "v1",
            "time": NOW,
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {"f:x": {}}},
        }
    ]


def test_a_repeated_apply_returns_the_same_object() -> None:
    tree = applied(None, config_map({"x": "1"}))
    assert applied(tree, config_map({"x": "1"}), now=LATER) is tree


def test_an_omitted_field_is_removed_unless_another_manager_owns_it() -> None:
    tree = applied(None, config_map({"x": "1", "y": "1"}))
    tree = applied(tree, config_map({"y": "1"}), "other")
    tree = applied(tree, config_map({}))
    assert tree["data"] == {"y": "1"}
    assert owners(tree) == {"m": {"f:data": {}}, "other": {"f:data": {"f:y": {}}}}


def test_a_field_that_an_update_owns_stays_when_an_apply_omits_it() -> None:
    live = config_map({"x": "1"})
    live["metadata"]["uid"] = "1"
    live["metadata"]["managedFields"] = updated_entries(
        None, live, shape_of("v1", "ConfigMap"), manager="u", api_version="v1", now=NOW
    )
    tree = applied(live, config_map({"x": "1"}))
    assert applied(tree, config_map({}))["data"] == {"x": "1"}


def test_a_different_value_of_an_owned_field_is_a_conflict() -> None:
    tree = applied(None, config_map({"x": "1"}))
    assert refusal(tree, config_map({"x": "2"}), "other") == (
        409,
        'Apply failed with 1 conflict: conflict with "m": .data.x',
    )
    forced = applied(tree, config_map({"x": "2"}), "other", force=True)
    assert forced["data"] == {"x": "2"}
    assert owners(forced) == {"other": {"f:data": {"f:x": {}}}}


def test_a_conflict_names_every_field_by_owner() -> None:
    tree = applied(None, deployment({"name": "a", "image": "i"}, replicas=1))
    tree = applied(tree, deployment(replicas=1), "other")
    assert refusal(tree, deployment({"name": "a", "image": "j"}, replicas=2), "third") == (
        409,
        (
            'Apply failed with 3 conflicts: conflicts with "m":\n- .spec.replicas\n'
            '- .spec.template.spec.containers[name="a"].image\nconflicts with "other":\n- .spec.replicas'
        ),
    )


def test_keyed_lists_are_merged_and_their_items_have_owners() -> None:
    tree = applied(None, deployment({"name": "a", "image": "i"}))
    tree = applied(tree, deployment({"name": "side", "image": "s"}), "other")
    assert [item["name"] for item in containers(tree)] == ["a", "side"]
    tree = applied(tree, deployment({"name": "b", "image": "i"}))
    assert [item["name"] for item in containers(tree)] == ["side", "b"]


def test_before_first_apply_owns_the_existing_fields() -> None:
    live = config_map({"x": "1"})
    live["metadata"]["uid"] = "1"
    tree = applied(live, config_map({"y": "1"}))
    assert owners(tree) == {"m": {"f:data": {"f:y": {}}}, "before-first-apply": {"f:data": {".": {}, "f:x": {}}}}


def test_kubectl_takes_over_the_fields_of_its_client_side_apply() -> None:
    text = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"x":"1"}}'
    live = config_map({"x": "1"})
    live["metadata"] |= {"uid": "1", "annotations": {ANNOTATION: text}}
    live["metadata"]["managedFields"] = updated_entries(
        None, live, shape_of("v1", "ConfigMap"), manager="kubectl-client-side-apply", api_version="v1", now=NOW
    )
    assert refusal(live, config_map({"x": "2"}), "helm")[0] == 409
    tree = applied(live, config_map({"x": "2"}), "kubectl")
    assert tree["data"] == {"x": "2"}
    assert tree["metadata"]["annotations"][ANNOTATION] == (
        '{"apiVersion":"v1","data":{"x":"2"},"kind":"ConfigMap","metadata":{"name":"a"}}\n'
    )


@pytest.mark.parametrize(
    ("tree", "code", "message"),
    [
        (
            config_map({}, bogus=1),
            500,
            "failed to create typed patch object (/a; /v1, Kind=ConfigMap): .bogus: field not declared in schema",
        ),
        (
            deployment({"name": "a"}, {"name": "a"}),
            500,
            (
                "failed to create typed patch object (/d; apps/v1, Kind=Deployment): "
                '.spec.template.spec.containers: duplicate entries for key [name="a"]'
            ),
        ),
        (
            config_map({"x": 1}),
            500,
            (
                "failed to create typed patch object (/a; /v1, Kind=ConfigMap): "
                ".data.x: expected string, got &value.valueUnstructured{Value:1}"
            ),
        ),
        (
            deployment(replicas="1"),
            500,
            (
                "failed to create typed patch object (/d; apps/v1, Kind=Deployment): "
                ".spec.replicas: expected numeric (int or float), got string"
            ),
        ),
        (config_map({}, metadata={"name": "a", "managedFields": [{}]}), 400, "metadata.managedFields must be nil"),
    ],
)
def test_errors_have_upstream_messages(tree: Tree, code: int, message: str) -> None:
    assert refusal(None, tree) == (code, message)


def test_a_kind_other_than_the_request_path_is_rejected() -> None:
    live = applied(None, config_map({}))
    for tree, text in (({"kind": "ConfigMap"}, "/, Kind=ConfigMap"), ({"apiVersion": "v1"}, "/v1, Kind=")):
        with pytest.raises(StatusError) as refused:
            apply(live, tree, shape_of("v1", "ConfigMap"), manager="m", api_version="v1", now=NOW)
        assert (refused.value.code, refused.value.status["message"]) == (400, f"invalid object type: {text}")


def test_types_without_a_schema_are_deduced() -> None:
    def custom(spec: Tree) -> Tree:
        return {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": spec}

    def put(live: Tree | None, spec: Tree, manager: str) -> Tree:
        return apply(live, custom(spec), None, manager=manager, api_version="example.com/v1", now=NOW)

    tree = put(None, {"a": {"b": 1}, "l": [1, 2]}, "m")
    tree = put(tree, {"c": 1}, "other")
    assert tree["spec"] == {"a": {"b": 1}, "l": [1, 2], "c": 1}
    tree = put(tree, {"l": [3]}, "m")
    assert tree["spec"] == {"l": [3], "c": 1}


NAMES = st.lists(st.sampled_from("abcd"), unique=True, min_size=1, max_size=4)
# Empty maps and lists are left out: typed objects do not keep them, so that each apply adds them again, also upstream.
CONFIGURATIONS = st.tuples(
    st.dictionaries(st.sampled_from("xyz"), st.sampled_from("12"), min_size=1, max_size=3), NAMES
).map(
    lambda pair: {
        **deployment(*({"name": name, "image": "i", "env": [{"name": "E", "value": name}]} for name in pair[1])),
        "metadata": {"name": "d", "labels": pair[0]},
    }
)


@given(st.lists(st.tuples(st.sampled_from("mno"), CONFIGURATIONS), min_size=1, max_size=5))
def test_apply_is_idempotent_and_sets_the_applied_fields(steps: list[tuple[str, Tree]]) -> None:
    tree: Tree | None = None
    for manager, configuration in steps:
        tree = applied(tree, configuration, manager, force=True)
        again = applied(tree, configuration, manager, force=True, now=LATER)
        assert again is tree
        labels = tree["metadata"].get("labels") or {}
        assert configuration["metadata"]["labels"].items() <= labels.items()
        names = [item["name"] for item in containers(tree) or ()]
        wanted = [item["name"] for item in containers(configuration)]
        assert [name for name in names if name in wanted] == wanted


@given(CONFIGURATIONS, CONFIGURATIONS, CONFIGURATIONS)
def test_an_intermediate_apply_leaves_no_fields(first: Tree, second: Tree, others: Tree) -> None:
    """Applying A and then B as one manager equals applying B, whatever another manager applied."""
    base = applied(None, others, "other", force=True)
    detour = applied(applied(base, first, force=True), second, force=True)
    straight = applied(base, second, force=True)
    same = {name: detour["metadata"].get("labels", {}).get(name) for name in second["metadata"]["labels"]}
    assert same == second["metadata"]["labels"]
    assert {item["name"] for item in containers(detour) or ()} == {item["name"] for item in containers(straight) or ()}


def definition(**properties: Tree) -> Tree:
    schema = {"type": "object", "properties": properties}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster", "versions": [version],
            "names": {"plural": "things", "kind": "Thing"},
        },
    }  # fmt: skip


def test_nested_schemas_are_accepted_in_every_form() -> None:
    """Schemas of items and of further properties have no schema of their own in Kubernetes: they are deduced."""
    zones: Tree = {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}}}}
    limits: Tree = {"type": "object", "additionalProperties": {"type": "string", "maxLength": 9}}
    made = applied(None, definition(zones=zones, limits=limits, closed={"additionalProperties": False}))
    (version,) = made["spec"]["versions"]
    assert version["schema"]["openAPIV3Schema"]["properties"]["zones"] == zones
    less = applied(made, definition(zones={"type": "array", "items": {"type": "object"}}))
    properties = less["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    assert properties == {"zones": {"type": "array", "items": {"type": "object"}}}
