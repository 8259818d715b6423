from __future__ import annotations

from typing import Any

import pytest

from allotment.model.features import Features
from allotment.model.meta import Condition, ObjectMeta
from allotment.model.validation.conditions import check_conditions
from allotment.model.validation.metadata import object_meta, object_meta_update
from tests.unit.model.validation.validating import texts, value

BEFORE, SINCE = Features("1.36"), Features("1.37")


def errors_of(namespaced: bool = True, **fields: Any) -> list[str]:
    meta = value(ObjectMeta, {"name": "c", "namespace": "n"} | fields)
    return [text.removeprefix("metadata.") for text in texts(object_meta(meta, namespaced=namespaced))]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, []),
        ({"generateName": "c-"}, []),
        ({"name": ""}, ["name: Required value: name or generateName is required"]),
        ({"namespace": ""}, ["namespace: Required value"]),
        ({"generation": -1}, ["generation: Invalid value: -1: must be greater than or equal to 0"]),
        ({"labels": {"a": "b" * 64}}, [f'labels: Invalid value: "{"b" * 64}": must be no more than 63 bytes']),
        ({"annotations": {"UPPER.example.com/X": "any value at all"}}, []),
        ({"annotations": {"a": "x" * 262144}}, ["annotations: Too long: may not be more than 262144 bytes"]),
        (
            {"ownerReferences": [{"apiVersion": "", "kind": "", "name": "", "uid": ""}]},
            [
                'ownerReferences.apiVersion: Invalid value: "": version must not be empty',
                'ownerReferences.kind: Invalid value: "": must not be empty',
                'ownerReferences.name: Invalid value: "": must not be empty',
                'ownerReferences.uid: Invalid value: "": must not be empty',
            ],
        ),
        (
            {"ownerReferences": [{"apiVersion": "v1", "kind": "Event", "name": "e", "uid": "u"}]},
            [
                (
                    'ownerReferences: Invalid value: {"apiVersion":"v1","kind":"Event","name":"e","uid":"u"}: '
                    "/v1, Kind=Event is disallowed from being an owner"
                )
            ],
        ),
        (
            {"finalizers": ["orphan", "foregroundDeletion"]},
            [
                (
                    'finalizers: Invalid value: ["orphan","foregroundDeletion"]: finalizer orphan and '
                    "foregroundDeletion cannot be both set"
                )
            ],
        ),
    ],
)
def test_metadata(fields: dict[str, Any], expected: list[str]) -> None:
    assert errors_of(**fields) == expected


def test_a_cluster_scoped_object_has_no_namespace() -> None:
    assert errors_of(namespaced=False) == ["namespace: Forbidden: not allowed on this type"]


def test_at_most_one_controller() -> None:
    owners = [{"apiVersion": "v1", "kind": "Pod", "name": n, "uid": n, "controller": True} for n in "ab"]
    (problem,) = errors_of(ownerReferences=owners)
    assert problem.endswith('Found "true" in references for Pod/a and Pod/b')


def test_immutable_metadata() -> None:
    old = ObjectMeta(name="c", namespace="n", uid="u", resource_version="1", creation_timestamp="t", generation=2)
    new = ObjectMeta(name="d", namespace="n", uid="v", creation_timestamp="t", generation=1)
    assert texts(object_meta_update(new, old)) == [
        'metadata.resourceVersion: Invalid value: "": must be specified for an update',
        "metadata.generation: Invalid value: 1: must not be decremented",
        'metadata.name: Invalid value: "d": field is immutable',
        'metadata.uid: Invalid value: "v": field is immutable',
    ]


def test_deleted_object_gets_no_new_finalizers() -> None:
    old = ObjectMeta(name="c", resource_version="1", deletion_timestamp="t", finalizers=("a/b", "a/c"))
    fewer = ObjectMeta(name="c", resource_version="1", deletion_timestamp="t", finalizers=("a/b",))
    more = ObjectMeta(name="c", resource_version="1", deletion_timestamp="t", finalizers=("a/b", "z/z", "y/y"))
    assert texts(object_meta_update(fewer, old)) == []
    assert texts(object_meta_update(more, old)) == [
        (
            "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new "
            'finalizers []string{"y/y", "z/z"}'
        )
    ]


def test_conditions() -> None:
    good = Condition(type="Ready", status="True", last_transition_time="t", reason="Fine")
    bad = Condition(type="Ready", status="Maybe", observed_generation=-1, reason="no good")
    assert texts(check_conditions((good,), "c", BEFORE)) == []
    assert texts(check_conditions((good, bad), "c", BEFORE)) == [
        'c[1].type: Duplicate value: "Ready"',
        'c[1].status: Unsupported value: "Maybe": supported values: "False", "True", "Unknown"',
        "c[1].observedGeneration: Invalid value: -1: must be greater than or equal to zero",
        "c[1].lastTransitionTime: Required value",
        (
            'c[1].reason: Invalid value: "no good": a condition reason must start with alphabetic character, '
            "optionally followed by a string of alphanumeric characters or '_,:', and must end with an alphanumeric "
            "character or '_'"
        ),
    ]


def test_conditions_of_1_37_require_type_and_status() -> None:
    empty = Condition(type="", status="", last_transition_time="t", reason="Fine")
    good = Condition(type="Ready", status="True", last_transition_time="t", reason="Fine")
    assert texts(check_conditions((empty,), "c", SINCE)) == [
        "c[0].type: Required value: is required", "c[0].status: Required value",
    ]  # fmt: skip
    assert texts(check_conditions((good, good), "c", SINCE)) == ['c[1]: Duplicate value: "Ready"']
    wrong = texts(check_conditions((empty,), "c", BEFORE))
    assert wrong[0].startswith('c[0].type: Invalid value: "": name part must be non-empty')
