from __future__ import annotations

from typing import Any

import pytest

from allotment.model.features import Features
from allotment.model.resource import DeviceTaintRule, ResourceSlice
from allotment.model.validation import admission
from allotment.model.validation.context import ValidationContext
from tests.unit.model.validation.validating import CONTEXT, NOW, check, texts, value

POOL = {"name": "p", "generation": 1, "resourceSliceCount": 1}
ONE_OF = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
ONE_OF_DEVICE = (
    "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true "
    "in the ResourceSlice spec"
)


def resource_slice(**spec: Any) -> ResourceSlice:
    base = {"driver": "d.example.com", "pool": POOL, "allNodes": True}
    fields = {key: item for key, item in (base | spec).items() if item is not None}
    return value(ResourceSlice, {"metadata": {"name": "s", "resourceVersion": "1"}, "spec": fields})


def problems(context: ValidationContext = CONTEXT, **spec: Any) -> list[str]:
    return texts(admission.create(resource_slice(**spec), context, version="v1", now=NOW).errors)


def device_problems(**fields: Any) -> list[str]:
    found = problems(devices=[{"name": "d0"} | fields])
    return [text.removeprefix("spec.devices[0]").removeprefix(".") for text in found]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, []),
        ({"driver": ""}, ["spec.driver: Required value"]),
        (
            {"nodeName": "n"},
            [f'spec: Invalid value: "{{`nodeName`, `allNodes`}}": {ONE_OF}, but multiple fields are set'],
        ),
        ({"allNodes": None}, [f"spec: Required value: {ONE_OF}"]),
        (
            {"perDeviceNodeSelection": False},
            ["spec.perDeviceNodeSelection: Invalid value: false: must be either unset or set to true"],
        ),
        (
            {"allNodes": None, "nodeSelector": {}},
            [
                ("spec.nodeSelector.nodeSelectorTerms: Required value: must have at least one node selector term"),
                ("spec.nodeSelector.nodeSelectorTerms: Invalid value: null: must have exactly one node selector term"),
            ],
        ),
        (
            {
                "allNodes": None,
                "nodeSelector": {
                    "nodeSelectorTerms": [
                        {
                            "matchExpressions": [
                                {"key": "a", "operator": "In"},
                                {"key": "a", "operator": "Exists", "values": ["x"]},
                                {"key": "a", "operator": "Gt", "values": ["1", "2"]},
                            ],
                            "matchFields": [
                                {"key": "metadata.name", "operator": "In"},
                                {"key": "spec.x", "operator": "Exists"},
                            ],
                        }
                    ]
                },
            },
            [
                (
                    "spec.nodeSelector.nodeSelectorTerms[0].matchExpressions[0].values: Required value: must be "
                    "specified when `operator` is 'In' or 'NotIn'"
                ),
                (
                    "spec.nodeSelector.nodeSelectorTerms[0].matchExpressions[1].values: Forbidden: may not be "
                    "specified when `operator` is 'Exists' or 'DoesNotExist'"
                ),
                (
                    "spec.nodeSelector.nodeSelectorTerms[0].matchExpressions[2].values: Required value: must be "
                    "specified single value when `operator` is 'Lt' or 'Gt'"
                ),
                (
                    "spec.nodeSelector.nodeSelectorTerms[0].matchFields[0].values: Required value: must be only one "
                    "value when `operator` is 'In' or 'NotIn' for node field selector"
                ),
                (
                    'spec.nodeSelector.nodeSelectorTerms[0].matchFields[1].operator: Invalid value: "Exists": not a '
                    "valid selector operator"
                ),
                (
                    'spec.nodeSelector.nodeSelectorTerms[0].matchFields[1].key: Invalid value: "spec.x": not a valid '
                    "field selector key"
                ),
            ],
        ),
        (
            {"devices": [], "sharedCounters": []},
            ['spec: Invalid value: "": only one of `sharedCounters` or `devices` is allowed'],
        ),
        (
            {"sharedCounters": [{"name": "a", "counters": {f"c{i}": {"value": "1"} for i in range(33)}}]},
            ["spec.sharedCounters[0].counters: Too many: 33: must have at most 32 items"],
        ),
        (
            {"devices": [{"name": f"d{i}", "attributes": {"a": {"ints": [1]}}} for i in range(65)]},
            ["spec.devices: Too many: 65: must have at most 64 items"],
        ),
    ],
)
def test_slices(spec: dict[str, Any], expected: list[str]) -> None:
    assert problems(**spec) == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"attributes": {f"a{i}": {"int": 1} for i in range(16)}, "capacity": {f"c{i}": {} for i in range(16)}}, []),
        (
            {"attributes": {"a": {"ints": list(range(49))}}},
            [": Invalid value: 49: the total number of attribute values must not exceed 48"],
        ),
        (
            {"attributes": {"a": {"strings": ["x", "y" * 65]}, "b": {"versions": ["1.2"]}, "c": {"bools": []}}},
            [
                "attributes[a].strings[1]: Too long: may not be more than 64 bytes",
                (
                    'attributes[b].versions[0]: Invalid value: "1.2": must be a string compatible with semver.org '
                    "spec 2.0.0"
                ),
                "attributes[c].bools: Invalid value: []: must not be empty if specified",
            ],
        ),
        (
            {"capacity": {"m": {"value": "1Gi", "requestPolicy": {}}}},
            ["capacity[m].requestPolicy: Forbidden: allowMultipleAllocations must be true"],
        ),
        (
            {"nodeName": ""},
            [
                (
                    ": Invalid value: null: `nodeName`, `nodeSelector` and `allNodes` can only be set if "
                    "`perDeviceNodeSelection` is set to true in the ResourceSlice spec"
                )
            ],
        ),
        (
            {"bindingFailureConditions": ["a"], "bindingConditions": ["a", "b", "b"]},
            [
                'bindingConditions[2]: Duplicate value: "b"',
                (
                    'bindingFailureConditions[0]: Invalid value: "a": bindingFailureConditions must not overlap with '
                    "bindingConditions"
                ),
            ],
        ),
        (
            {"bindingFailureConditions": ["a", "a"]},
            [
                'bindingFailureConditions[1]: Duplicate value: "a"',
                (
                    "bindingConditions: Invalid value: null: bindingConditions are required to use "
                    "bindingFailureConditions"
                ),
            ],
        ),
        (
            {"consumesCounters": [{"counterSet": "A"}, {"counters": {"c": {"value": "1"}}}]},
            [
                (
                    'consumesCounters[0].counterSet: Invalid value: "A": a lowercase RFC 1123 label must consist of '
                    "lower case alphanumeric characters or '-', and must start and end with an alphanumeric character"
                ),
                "consumesCounters[0].counters: Required value",
                "consumesCounters[1].counterSet: Required value",
            ],
        ),
        (
            {
                "capacity": {"memory": {"value": "1Gi"}},
                "nodeAllocatableResourceMappings": {
                    "cpu": {"allocationMultiplier": "0"},
                    "memory": {"capacityKey": "memory"},
                    "example.com/x": {"capacityKey": "nope"},
                },
            },
            [
                'nodeAllocatableResourceMappings[cpu].allocationMultiplier: Invalid value: "0": must be positive',
                (
                    'nodeAllocatableResourceMappings[example.com/x]: Invalid value: "example.com/x": must be a node '
                    "allocatable resource name"
                ),
                'nodeAllocatableResourceMappings[example.com/x].capacityKey: Not found: "nope"',
            ],
        ),
    ],
)
def test_devices(fields: dict[str, Any], expected: list[str]) -> None:
    assert device_problems(**fields) == expected


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ({}, []),
        ({"default": "1Gi"}, []),
        ({"validValues": ["1Gi"]}, ["default: Required value: required when validValues is defined"]),
        ({"validRange": {}}, ["default: Required value: required when validRange is defined"]),
        (
            {"default": "1Gi", "validRange": {"max": "2Gi"}},
            ["validRange.min: Required value: required when validRange is defined"],
        ),
        (
            {"default": "1Gi", "validValues": ["2Gi", "1Gi", "1Gi", "20Gi"]},
            [
                'validValues[1]: Invalid value: "1Gi": values must be sorted in ascending order',
                'validValues[3]: Invalid value: "20Gi": option is larger than capacity value: 10Gi',
                'validValues[2]: Duplicate value: "1073741824"',
            ],
        ),
        (
            {"default": "3Gi", "validValues": ["1Gi", "2Gi"]},
            ['validValues: Invalid value: "3Gi": default value is not valid according to the requestPolicy'],
        ),
        (
            {"default": "1", "validValues": [str(i) for i in range(11)]},
            [
                "validValues: Too many: 11: must have at most 10 items",
                'validValues: Invalid value: "1": default value is not valid according to the requestPolicy',
            ],
        ),
        (
            {"default": "1Gi", "validRange": {"min": "11Gi", "max": "12Gi"}},
            [
                'validRange.min: Invalid value: "11Gi": min is larger than capacity value: 10Gi',
                'validRange.min: Invalid value: "1Gi": default is less than min: 11Gi',
                'validRange.max: Invalid value: "12Gi": max is larger than capacity value: 10Gi',
            ],
        ),
        (
            {"default": "2Gi", "validRange": {"min": "2Gi", "step": "9Gi"}},
            ['validRange.step: Invalid value: "9Gi": one step 11Gi is larger than capacity value: 10Gi'],
        ),
        (
            {"default": "2Gi", "validRange": {"min": "2Gi", "step": "0"}},
            ['validRange.step: Invalid value: "0": must be greater than zero'],
        ),
    ],
)
def test_request_policies(policy: dict[str, Any], expected: list[str]) -> None:
    found = device_problems(allowMultipleAllocations=True, capacity={"m": {"value": "10Gi", "requestPolicy": policy}})
    assert [text.removeprefix("capacity[m].requestPolicy.") for text in found] == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"nodeName": "n"}, []),
        ({}, [f": Required value: {ONE_OF_DEVICE}"]),
        ({"nodeName": "n", "allNodes": True}, [f': Invalid value: "{{`nodeName`, `allNodes`}}": {ONE_OF_DEVICE}']),
        (
            {"nodeName": "", "allNodes": False},
            [
                'nodeName: Invalid value: "": must not be empty',
                "allNodes: Invalid value: false: must be either unset or set to true",
                f": Required value: {ONE_OF_DEVICE}",
            ],
        ),
    ],
)
def test_nodes_of_single_devices(fields: dict[str, Any], expected: list[str]) -> None:
    found = problems(allNodes=None, perDeviceNodeSelection=True, devices=[{"name": "d0"} | fields])
    assert [text.removeprefix("spec.devices[0]").removeprefix(".") for text in found] == expected


def test_immutable_fields_of_a_slice() -> None:
    old = resource_slice(allNodes=None, nodeName="a")
    new = resource_slice(driver="other", pool=POOL | {"name": "q"})
    found = admission.update(new, old, CONTEXT, version="v1", now=NOW)
    assert texts(found.errors) == [
        'spec.pool.name: Invalid value: "q": field is immutable',
        'spec.driver: Invalid value: "other": field is immutable',
        "spec.nodeName: Invalid value: null: field is immutable",
    ]
    assert found.value.metadata.generation == 1


def test_unchanged_taints_can_have_unknown_effects() -> None:
    """A slice that a newer server stored can still be updated."""
    taint = {"key": "k", "effect": "Newer", "timeAdded": NOW}
    old = resource_slice(devices=[{"name": "d0", "taints": [taint]}])
    new = resource_slice(devices=[{"name": "d0", "taints": [taint]}, {"name": "d1", "taints": [taint]}])
    assert texts(admission.update(new, old, CONTEXT, version="v1", now=NOW).errors) == [
        (
            'spec.devices[1].taints[0].effect: Unsupported value: "Newer": supported values: "NoExecute", '
            '"NoSchedule", "None"'
        )
    ]


def test_upper_case_in_a_driver_name_is_a_warning() -> None:
    admitted = admission.create(resource_slice(driver="GPU.example.com"), CONTEXT, version="v1", now=NOW)
    assert admitted.errors == []
    assert admitted.warnings == [
        'spec.driver: driver names should be lowercase; "GPU.example.com" contains uppercase characters'
    ]


def test_fields_of_disabled_features_are_dropped() -> None:
    off = ValidationContext(Features("1.34"), check)
    full = resource_slice(
        allNodes=None,
        perDeviceNodeSelection=True,
        devices=[
            {
                "name": "d0",
                "attributes": {"a": {"ints": [1]}},
                "capacity": {"m": {"value": "1", "requestPolicy": {"default": "1"}}},
                "consumesCounters": [{"counterSet": "c", "counters": {"x": {"value": "1"}}}],
                "nodeName": "n",
                "taints": [{"key": "k", "effect": "NoSchedule"}],
                "bindsToNode": True,
                "bindingConditions": ["a"],
                "bindingFailureConditions": ["b"],
                "allowMultipleAllocations": True,
                "nodeAllocatableResourceMappings": {"cpu": {}},
            }
        ],
    )
    admitted = admission.create(full, off, version="v1", now=NOW)
    assert (
        admitted.value.spec
        == resource_slice(
            allNodes=None, devices=[{"name": "d0", "attributes": {"a": {}}, "capacity": {"m": {"value": "1"}}}]
        ).spec
    )
    assert texts(admitted.errors) == [
        f"spec: Required value: {ONE_OF}",
        'spec.devices[0].attributes[a]: Invalid value: "": exactly one value must be specified',
    ]
    kept = admission.update(full, full, off, version="v1", now=NOW)
    assert kept.errors == [], "stored fields are kept"


def rule(**taint: Any) -> DeviceTaintRule:
    return value(
        DeviceTaintRule, {"metadata": {"name": "r", "resourceVersion": "1"}, "spec": {"taint": {"key": "k"} | taint}}
    )


def test_time_added_changes_with_the_effect() -> None:
    old = rule(effect="NoSchedule", timeAdded="2020-01-01T00:00:00Z")
    new = rule(effect="NoExecute", timeAdded="2020-01-01T00:00:00Z")
    changed = admission.update(new, old, CONTEXT, version="v1beta2", now=NOW).value
    assert changed.spec.taint.time_added == NOW
    assert changed.metadata.generation == 1
    same = admission.update(old, old, CONTEXT, version="v1beta2", now=NOW).value
    assert same.spec.taint.time_added == "2020-01-01T00:00:00Z"


def test_unchanged_unknown_effect_of_a_rule_is_valid() -> None:
    newer = rule(effect="Newer", timeAdded=NOW)
    assert len(admission.create(newer, CONTEXT, version="v1beta2", now=NOW).errors) == 1
    assert admission.update(newer, newer, CONTEXT, version="v1beta2", now=NOW).errors == []
