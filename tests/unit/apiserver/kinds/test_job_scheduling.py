"""``spec.scheduling`` of Jobs and job templates: gate, validation, updates."""

from __future__ import annotations

from typing import Any

import pytest

from allotment.apiserver.built_in_kinds import built_in_kinds
from allotment.model.features import Features
from allotment.model.fields import shape_of
from allotment.model.normal_form import normalize
from allotment.model.trees import Tree
from tests.unit.apiserver.shelf import shown, write

ON = Features("1.37", {"GenericWorkload": True, "WorkloadWithJob": True})
OFF = Features("1.37")
GANG: Tree = {"schedulingPolicy": {"gang": {"minCount": 2}}}
BASIC_AND_ALL = "the disruptionMode `all` is not supported with the Basic scheduling policy"
VARIANT = (
    "the basic/gang policy variant is immutable after creation; only schedulingPolicy.gang.minCount may be updated"
)


def job(scheduling: Tree | None, **more: Any) -> Tree:
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    spec = {"parallelism": 2, "completions": 2, "template": {"spec": pod}, **more}
    if scheduling is not None:
        spec["scheduling"] = scheduling
    tree = {"kind": "Job", "apiVersion": "batch/v1", "metadata": {"name": "j", "uid": "u"}, "spec": spec}
    return normalize(tree, shape_of("batch/v1", "Job", "1.37"))


def created(tree: Tree, features: Features = ON) -> tuple[Tree, list[str]]:
    [rules] = [kind.rules for kind in built_in_kinds(features) if kind.kind == tree["kind"]]
    about = write()._replace(features=features)
    made = rules.prepare_create(rules.default(tree, None), about)
    made = rules.drop_disabled(made, None, about)
    return made, shown(rules.validate_create(made, about))


def changed(new: Tree, old: Tree, features: Features = ON) -> tuple[Tree, list[str]]:
    [rules] = [kind.rules for kind in built_in_kinds(features) if kind.kind == "Job"]
    about = write()._replace(features=features)
    before, _ = created(old, ON)
    after = {**created(new, ON)[0], "metadata": before["metadata"]}
    after = rules.drop_disabled(after, before, about)
    return after, shown(rules.validate_update(after, before, about))


@pytest.mark.parametrize(
    ("scheduling", "errors"),
    [
        ({}, []),
        ({"schedulingPolicy": {"gang": {}}}, []),
        (
            {"schedulingPolicy": {"gang": {"minCount": 3}}},
            [".schedulingPolicy.gang.minCount: Invalid value: 3: must not be greater than parallelism (2)"],
        ),
        (
            {"schedulingPolicy": {"gang": {"minCount": 0}}},
            [".schedulingPolicy.gang.minCount: Invalid value: 0: must be greater than or equal to 1"],
        ),
        ({"schedulingPolicy": {}}, ['.schedulingPolicy: Invalid value: "": must specify one of: `basic`, `gang`']),
        ({"disruptionMode": {"all": {}}}, [f'.disruptionMode: Invalid value: "": {BASIC_AND_ALL}']),
        ({**GANG, "disruptionMode": {"all": {}}}, []),
        (
            {"schedulingPolicy": {}, "disruptionMode": {"all": {}}},
            [
                f'.disruptionMode: Invalid value: "": {BASIC_AND_ALL}',
                '.schedulingPolicy: Invalid value: "": must specify one of: `basic`, `gang`',
            ],
        ),
        (
            {"disruptionMode": {"single": {}, "all": {}}},
            ['.disruptionMode: Invalid value: "{single, all}": must specify exactly one of: `single`, `all`'],
        ),
        (
            {**GANG, "resourceClaims": [{"name": str(number), "resourceClaimName": "c"} for number in range(5)]},
            [".resourceClaims: Too many: 5: must have at most 4 items"],
        ),
    ],
)
def test_new_jobs(scheduling: Tree, errors: list[str]) -> None:
    made, found = created(job(scheduling))
    assert found == [f"spec.scheduling{error}" for error in errors]
    assert made["spec"]["scheduling"] == scheduling


def test_a_cron_job_has_the_same_rules_for_its_jobs() -> None:
    spec = {"schedule": "@daily", "jobTemplate": {"spec": job({"schedulingPolicy": {"gang": {"minCount": 3}}})["spec"]}}
    tree = {"kind": "CronJob", "apiVersion": "batch/v1", "metadata": {"name": "c"}, "spec": spec}
    path = "spec.jobTemplate.spec.scheduling.schedulingPolicy.gang.minCount"
    assert created(tree)[1] == [f"{path}: Invalid value: 3: must not be greater than parallelism (2)"]
    made, errors = created(tree, OFF)
    assert (errors, "scheduling" in made["spec"]["jobTemplate"]["spec"]) == ([], False)


def test_without_the_gate_the_field_is_dropped_unless_it_is_stored() -> None:
    made, errors = created(job({"schedulingPolicy": {}}), OFF)
    assert (errors, "scheduling" in made["spec"]) == ([], False)
    kept, errors = changed(job(GANG, suspend=True), job(GANG), OFF)
    assert (errors, kept["spec"]["scheduling"]) == ([], GANG)
    added, errors = changed(job(GANG, suspend=True), job(None), OFF)
    assert (errors, "scheduling" in added["spec"]) == ([], False)


@pytest.mark.parametrize(
    ("new", "old", "errors"),
    [
        ({"schedulingPolicy": {"gang": {"minCount": 1}}}, GANG, []),
        ({"schedulingPolicy": {"basic": {}}}, GANG, [f".schedulingPolicy: Invalid value: null: {VARIANT}"]),
        (None, GANG, [": Invalid value: null: field cannot be cleared once set"]),
        (GANG, None, [": Invalid value: null: field cannot be set once created"]),
        ({}, GANG, [".schedulingPolicy: Invalid value: null: field cannot be cleared once set"]),
        (
            {**GANG, "schedulingConstraints": {"topology": [{"key": "rack"}]}},
            GANG,
            [".schedulingConstraints: Invalid value: null: field is immutable"],
        ),
    ],
)
def test_only_the_minimum_count_can_change(new: Tree | None, old: Tree | None, errors: list[str]) -> None:
    assert changed(job(new), job(old))[1] == [f"spec.scheduling{error}" for error in errors]
