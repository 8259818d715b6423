"""What Kubernetes 1.37 added to ResourceSlices, and what it checks differently."""

from __future__ import annotations

from typing import Any

import pytest

from allotment.model.features import Features
from allotment.model.resource import ResourceSlice
from allotment.model.trees import Tree
from allotment.model.validation import admission
from allotment.model.validation.context import ValidationContext
from tests.unit.model.validation.test_slices import resource_slice
from tests.unit.model.validation.validating import CONTEXT, CONTEXT_1_37, NOW, PLAIN_1_37, check, texts

COUNTERS = {"counterSet": "s", "counters": {"memory": {"value": "1"}}}
SET = "consumesCounters[0]"


def problems(context: ValidationContext = CONTEXT_1_37, version: str = "v1", **spec: Any) -> list[str]:
    return texts(admission.create(resource_slice(**spec), context, version=version, now=NOW).errors)


def device_problems(context: ValidationContext = CONTEXT_1_37, **fields: Any) -> list[str]:
    found = problems(context, devices=[{"name": "d0"} | fields])
    return [text.removeprefix("spec.devices[0].") for text in found]


def update_problems(new: ResourceSlice, old: ResourceSlice, context: ValidationContext = CONTEXT_1_37) -> list[str]:
    return texts(admission.update(new, old, context, version="v1", now=NOW).errors)


# --- partition types -------------------------------------------------------------------------------------------------

TYPE = "d.example.com/profile"
AT_TYPE = f"attributes[{TYPE}]"
MISSING = (
    "Required value: device consumes counters and `partitionTypeAttribute` names this attribute, so it must be set"
)
NOT_A_STRING = "must be a string value because `partitionTypeAttribute` names this attribute"


def partition(**attributes: Tree) -> Tree:
    return {"name": "d0", "consumesCounters": [COUNTERS], "attributes": attributes}


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({TYPE: {"string": "1g"}}, []),
        ({"profile": {"string": "1g"}}, []),  # a name without a domain is in the driver's
        ({TYPE: {"string": "1g"}, "profile": {"int": 1}}, []),
        ({}, [f"{AT_TYPE}: {MISSING}"]),
        ({"x.example.com/profile": {"string": "1g"}}, [f"{AT_TYPE}: {MISSING}"]),
    ],
)
def test_each_partition_has_its_type(attributes: dict[str, Tree], expected: list[str]) -> None:
    found = problems(partitionTypeAttribute=TYPE, devices=[partition(**attributes)])
    assert found == [f"spec.devices[0].{text}" for text in expected]


def test_a_partition_type_is_a_string() -> None:
    (found,) = problems(partitionTypeAttribute=TYPE, devices=[partition(**{TYPE: {"int": 3}})])
    assert found.startswith(f'spec.devices[0].{AT_TYPE}: Invalid value: {{"IntValue":3,')
    assert found.endswith(NOT_A_STRING)


def test_an_empty_type_is_no_string_and_no_value() -> None:
    coded, declared = problems(partitionTypeAttribute=TYPE, devices=[partition(**{TYPE: {}})])
    assert coded.endswith(NOT_A_STRING)
    assert declared.startswith(f'spec.devices[0].{AT_TYPE}: Invalid value: "": must specify one of: ')


def test_other_domains_are_not_the_drivers() -> None:
    other = "x.example.com/profile"
    found = problems(partitionTypeAttribute=other, devices=[partition(profile={"string": "1g"})])
    assert found == [f"spec.devices[0].attributes[{other}]: {MISSING}"]


def test_devices_without_counters_need_no_type() -> None:
    devices = [partition(**{TYPE: {"string": "1g"}}), {"name": "d1"}]
    assert problems(partitionTypeAttribute=TYPE, devices=devices) == []
    expected = (
        f'spec.partitionTypeAttribute: Invalid value: "{TYPE}": may only be set on a slice which declares devices '
        "that consume counters"
    )
    assert problems(partitionTypeAttribute=TYPE, devices=[{"name": "d1"}]) == [expected]


def test_a_malformed_type_is_reported_once() -> None:
    (found,) = problems(partitionTypeAttribute="profile", devices=[partition()])
    assert found.startswith('spec.partitionTypeAttribute: Invalid value: "profile": a fully qualified name')


# --- node operations -------------------------------------------------------------------------------------------------

PREPARE, UNPREPARE = "NodePrepareResources", "NodeUnprepareResources"
ALONE = (
    f'spec.skipNodeOperations: Invalid value: ["{PREPARE}"]: {PREPARE} cannot be skipped unless {UNPREPARE} is also '
    "skipped"
)
SUPPORTED = f'supported values: "*", "{PREPARE}", "{UNPREPARE}"'


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        (["*"], []),
        ([UNPREPARE], []),
        ([PREPARE, UNPREPARE], []),
        ([PREPARE, "*"], []),
        ([PREPARE], [ALONE]),
        (["Reboot"], [f'spec.skipNodeOperations[0]: Unsupported value: "Reboot": {SUPPORTED}']),
        (["*", "*"], ['spec.skipNodeOperations[1]: Duplicate value: "*"']),
    ],
)
def test_operations_that_drivers_do_not_need(operations: list[str], expected: list[str]) -> None:
    assert problems(skipNodeOperations=operations) == expected


# --- compatibility groups --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        (["mig", "mps"], []),
        (["a", "b", "c"], [f"{SET}.compatibilityGroups: Too many: 3: must have at most 2 items"]),
        (["a", "a"], [f'{SET}.compatibilityGroups[1]: Duplicate value: "a"']),
        (["a.b"], [f'{SET}.compatibilityGroups[0]: Invalid value: "a.b": must not contain dots']),
        (["x" * 64], [f'{SET}.compatibilityGroups[0]: Invalid value: "{"x" * 64}": must be no more than 63 bytes']),
    ],
)
def test_compatibility_groups(groups: list[str], expected: list[str]) -> None:
    assert device_problems(consumesCounters=[COUNTERS | {"compatibilityGroups": groups}]) == expected


# --- resources of the node -------------------------------------------------------------------------------------------

CPU = "nodeAllocatableResources[cpu]"
CHOICES = "`capacityKey`, `deviceMultiplier`"


@pytest.mark.parametrize(
    ("resource", "expected"),
    [
        ({"mapping": {"deviceMultiplier": "1"}}, []),
        ({"mapping": {"capacityKey": "cores", "capacityMultiplier": "500m"}}, []),
        ({"overhead": {"perPod": "0", "perContainer": "10Mi"}}, []),
        ({}, [f"{CPU}: Required value: at least one of mapping or overhead must be set"]),
        ({"mapping": {}}, [f'{CPU}.mapping: Invalid value: "": must specify one of: {CHOICES}']),
        (
            {"mapping": {"capacityKey": "cores", "capacityMultiplier": "1", "deviceMultiplier": "1"}},
            [
                (
                    f'{CPU}.mapping: Invalid value: "{{capacityKey, deviceMultiplier}}": must specify exactly one of: '
                    f"{CHOICES}"
                )
            ],
        ),
        (
            {"mapping": {"capacityKey": "cores"}},
            [
                (
                    f"{CPU}.mapping.capacityMultiplier: Required value: capacityMultiplier is required when "
                    "capacityKey is set"
                )
            ],
        ),
        (
            {"mapping": {"capacityMultiplier": "1"}},
            [
                (f"{CPU}.mapping.capacityKey: Required value: capacityKey is required when capacityMultiplier is set"),
                f'{CPU}.mapping: Invalid value: "": must specify one of: {CHOICES}',
            ],
        ),
        (
            {"mapping": {"capacityKey": "d.example.com/cores", "capacityMultiplier": "0"}},
            [
                f'{CPU}.mapping.capacityKey: Not found: "d.example.com/cores"',
                f'{CPU}.mapping.capacityMultiplier: Invalid value: "0": must be positive',
            ],
        ),
        (
            {"mapping": {"capacityKey": "", "capacityMultiplier": "1"}},
            [f'{CPU}.mapping.capacityKey: Invalid value: "": capacityKey must not be an empty string'],
        ),
        ({"overhead": {}}, [f'{CPU}.overhead: Invalid value: "": at least one of perPod or perContainer must be set']),
        (
            {"overhead": {"perPod": "-1", "perContainer": "-2"}},
            [
                f'{CPU}.overhead.perPod: Invalid value: "-1": must be non-negative',
                f'{CPU}.overhead.perContainer: Invalid value: "-2": must be non-negative',
            ],
        ),
    ],
)
def test_resources_of_the_node(resource: Tree, expected: list[str]) -> None:
    found = device_problems(capacity={"cores": {"value": "4"}}, nodeAllocatableResources={"cpu": resource})
    assert found == expected


@pytest.mark.parametrize(
    ("name", "is_valid"),
    [("cpu", True), ("memory", True), ("hugepages-2Mi", True), ("ephemeral-storage", False), ("pods", False)],
)
def test_only_some_resources_of_the_node_can_be_taken(name: str, is_valid: bool) -> None:
    found = device_problems(nodeAllocatableResources={name: {"mapping": {"deviceMultiplier": "1"}}})
    path = f"nodeAllocatableResources[{name}]"
    assert found == ([] if is_valid else [f'{path}: Invalid value: "{name}": must be a node allocatable resource name'])


# --- request policies ------------------------------------------------------------------------------------------------

POLICY = "capacity[cores].requestPolicy"


def policy_problems(context: ValidationContext, default: str, total: str = "10", **policy: Any) -> list[str]:
    capacity = {"cores": {"value": total, "requestPolicy": {"default": default, **policy}}}
    found = device_problems(context, allowMultipleAllocations=True, capacity=capacity)
    return [text.removeprefix(f"{POLICY}.") for text in found]


@pytest.mark.parametrize(
    ("default", "bounds", "fractional", "whole"),
    [
        ("200m", {"min": "100m", "max": "1", "step": "100m"}, [], []),
        (
            "250m",
            {"min": "100m", "max": "1", "step": "100m"},
            ['validRange.step: Invalid value: "250m": value is not a multiple of a given step (100m) from (100m)'],
            [],  # rounded up to whole units
        ),
        # The default alone has a fraction.
        (
            "1500m",
            {"min": "1", "step": "1"},
            ['validRange.step: Invalid value: "1500m": value is not a multiple of a given step (1) from (1)'],
            [],
        ),
        (
            "100u",
            {"min": "0", "max": "2"},
            ['validRange.default: Invalid value: "100u": value cannot be represented as a milli value'],
            [],
        ),
    ],
)
def test_ranges_with_fractions(default: str, bounds: Tree, fractional: list[str], whole: list[str]) -> None:
    assert policy_problems(CONTEXT_1_37, default, validRange=bounds) == fractional
    assert policy_problems(PLAIN_1_37, default, validRange=bounds) == whole


@pytest.mark.parametrize(
    ("default", "bounds", "expected"),
    [
        ("1", {"min": "1", "step": "0"}, ['step: Invalid value: "0": must be greater than zero']),
        ("1", {"min": "1", "step": "-1"}, ['step: Invalid value: "-1": must be greater than zero']),
        ("1", {"min": "-1", "step": "1"}, ['min: Invalid value: "-1": must be greater than or equal to 0']),
        ("1", {"min": "-1"}, []),  # without steps nothing is computed
        (
            "1",
            {"min": "1", "max": "18446744073709551617", "step": "1"},
            ['max: Invalid value: "18446744073709551617": must not be larger than 9223372036854775807'],
        ),
    ],
)
def test_ranges_in_whole_units_fit_int64(default: str, bounds: Tree, expected: list[str]) -> None:
    found = policy_problems(CONTEXT_1_37, default, total="36893488147419103232", validRange=bounds)
    assert found == [f"validRange.{text}" for text in expected]


def test_a_default_outside_its_range_is_an_error_of_the_default_since_1_37() -> None:
    bounds = {"min": "2", "max": "4"}
    for context, (low, high) in ((CONTEXT, ("min", "max")), (CONTEXT_1_37, ("default", "default"))):
        assert policy_problems(context, "1", validRange=bounds) == [
            f'validRange.{low}: Invalid value: "1": default is less than min: 2'
        ]
        assert policy_problems(context, "5", validRange=bounds) == [
            f'validRange.{high}: Invalid value: "5": default is more than max: 4'
        ]


@pytest.mark.parametrize(
    ("values", "fractional", "whole"),
    [
        (["500m", "1"], None, "1"),
        (["1", "1000m"], None, "1"),  # told apart as written
        (["500m", "500m"], "0.500", "1"),
    ],
)
def test_equal_options(values: list[str], fractional: str | None, whole: str | None) -> None:
    for context, key in ((CONTEXT_1_37, fractional), (PLAIN_1_37, whole)):
        expected = [] if key is None else [f'validValues[1]: Duplicate value: "{key}"']
        assert policy_problems(context, values[0], validValues=values) == expected


def test_unchanged_capacity_is_not_checked_again_since_1_37() -> None:
    bad = {"name": "d0", "capacity": {"cores": {"value": "1", "requestPolicy": {"default": "1"}}}}
    old = resource_slice(devices=[bad])
    same = resource_slice(devices=[bad | {"attributes": {"a": {"int": 1}}}])
    other = resource_slice(devices=[bad | {"name": "d1"}])
    forbidden = "capacity[cores].requestPolicy: Forbidden: allowMultipleAllocations must be true"
    assert update_problems(same, old) == []
    assert update_problems(other, old) == [f"spec.devices[0].{forbidden}"]
    assert update_problems(same, old, CONTEXT) == [f"spec.devices[0].{forbidden}"]


# --- gates and releases ----------------------------------------------------------------------------------------------

NEW_FIELDS = {
    "partitionTypeAttribute": "bad name",
    "skipNodeOperations": ["Reboot"],
    "devices": [
        {
            "name": "d0",
            "consumesCounters": [COUNTERS | {"compatibilityGroups": ["A", "A", "A"]}],
            "nodeAllocatableResources": {"pods": {}},
        }
    ],
}


@pytest.mark.parametrize("context", [CONTEXT, PLAIN_1_37])
def test_fields_are_dropped_while_their_gates_are_off(context: ValidationContext) -> None:
    context = ValidationContext(Features(context.features.kube), check)
    result = admission.create(resource_slice(**NEW_FIELDS), context, version="v1", now=NOW)
    assert result.errors == []
    spec = result.value.spec
    assert (spec.partition_type_attribute, spec.skip_node_operations) == (None, ())
    (device,) = spec.devices
    assert (device.node_allocatable_resources, device.consumes_counters[0].compatibility_groups) == ({}, ())


def test_the_client_owns_what_was_dropped() -> None:
    result = admission.create(resource_slice(skipNodeOperations=["*"]), PLAIN_1_37, version="v1", now=NOW)
    assert result.value.spec.skip_node_operations == ()
    assert result.owned.spec.skip_node_operations == ("*",)


def test_fields_in_use_stay_when_their_gates_are_turned_off() -> None:
    used = {
        "partitionTypeAttribute": TYPE,
        "skipNodeOperations": ["*"],
        "devices": [
            partition(**{TYPE: {"string": "1g"}})
            | {
                "consumesCounters": [COUNTERS | {"compatibilityGroups": ["mig"]}],
                "nodeAllocatableResources": {"cpu": {"mapping": {"deviceMultiplier": "1"}}},
            }
        ],
    }
    old = admission.create(resource_slice(**used), CONTEXT_1_37, version="v1", now=NOW).value
    result = admission.update(resource_slice(**used), old, PLAIN_1_37, version="v1", now=NOW)
    assert result.errors == []
    assert result.value.spec == old.spec


def test_an_attribute_has_one_value_in_the_words_of_each_release() -> None:
    names = "`int`, `bool`, `string`, `version`, `ints`, `bools`, `strings`, `versions`"
    found = device_problems(attributes={"a": {}, "b": {"int": 1, "bool": True}})
    assert found == [
        f'attributes[a]: Invalid value: "": must specify one of: {names}',
        f'attributes[b]: Invalid value: "{{int, bool}}": must specify exactly one of: {names}',
    ]
    assert device_problems(CONTEXT, attributes={"a": {}}) == [
        'attributes[a]: Invalid value: "": exactly one value must be specified'
    ]


def test_declared_rules_have_the_path_of_the_written_version() -> None:
    (found,) = problems(version="v1beta1", devices=[{"name": "d0", "attributes": {"a": {}}}])
    assert found.startswith("spec.devices[0].basic.attributes[a]: ")
