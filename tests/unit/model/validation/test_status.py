from __future__ import annotations

import copy
from typing import Any

import pytest

from allotment.model.features import Features
from allotment.model.resource import DeviceTaintRule, ResourceClaim, ResourcePoolStatusRequest
from allotment.model.validation import admission
from allotment.model.validation.claim_status import interface_address
from allotment.model.validation.context import ValidationContext
from tests.unit.model.validation.validating import CONTEXT, CONTEXT_1_37, NOW, PLAIN_1_37, check, texts, value

SHARE = "8d0c4ddb-1c6a-4f3e-9b39-6d7a3c0c1d10"
RESULT = {"request": "r", "driver": "d.io", "pool": "p", "device": "d0"}
STATUS: dict[str, Any] = {
    "allocation": {"devices": {"results": [RESULT]}},
    "reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}],
}
DEVICE = {"driver": "d.io", "pool": "p", "device": "d0"}


def claim(status: Any, **meta: Any) -> ResourceClaim:
    tree = {
        "metadata": {"name": "c", "namespace": "n", "resourceVersion": "1"} | meta,
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "k"}}]}},
        "status": status,
    }
    return value(ResourceClaim, tree)


def write(new: Any, old: Any = None, context: ValidationContext = CONTEXT, **meta: Any) -> admission.AdmissionResult:
    return admission.update_status(claim(new, **meta), claim(old or {}, **meta), context, version="v1", now=NOW)


def problems(new: Any, old: Any = None, **meta: Any) -> list[str]:
    return [text.removeprefix("status.") for text in texts(write(new, old, **meta).errors)]


def changed(**fields: Any) -> dict[str, Any]:
    """The status with changed fields in its only result."""
    status = copy.deepcopy(STATUS)
    status["allocation"]["devices"]["results"][0].update(fields)
    return status


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (STATUS, []),
        ({}, []),
        (
            {"reservedFor": STATUS["reservedFor"]},
            ["reservedFor: Forbidden: may not be specified when `allocated` is not set"],
        ),
        (
            STATUS | {"reservedFor": [{}, {"resource": "pods", "name": "p", "uid": ""}]},
            [
                "reservedFor[0].resource: Required value",
                "reservedFor[0].name: Required value",
                "reservedFor[0].uid: Required value",
                "reservedFor[1].uid: Required value",
                'reservedFor[1]: Duplicate value: ""',
            ],
        ),
        (
            STATUS | {"reservedFor": [{"resource": "pods", "name": "p", "uid": str(i)} for i in range(257)]},
            ["reservedFor: Too many: 257: must have at most 256 items"],
        ),
        (
            changed(request="other", driver="", pool="", device=""),
            [
                (
                    'allocation.devices.results[0].request: Invalid value: "other": must be the name of a request in '
                    "the claim or the name of a request and a subrequest separated by '/'"
                ),
                "allocation.devices.results[0].driver: Required value",
                "allocation.devices.results[0].pool: Required value",
                (
                    'allocation.devices.results[0].device: Invalid value: "": a lowercase RFC 1123 label must consist '
                    "of lower case alphanumeric characters or '-', and must start and end with an alphanumeric "
                    "character"
                ),
            ],
        ),
        (
            changed(shareID="nope"),
            [
                (
                    'allocation.devices.results[0].shareID: Invalid value: "nope": error validating uid: invalid UUID '
                    "length: 4"
                )
            ],
        ),
        (changed(tolerations=[{"operator": "Whatever"}]), []),
        (
            {"allocation": {"devices": {"config": [{}, {"source": "FromHell", "opaque": {"driver": "d"}}]}}},
            [
                "allocation.devices.config[0].source: Required value",
                "allocation.devices.config[0].opaque: Required value",
                (
                    'allocation.devices.config[1].source: Unsupported value: "FromHell": supported values: '
                    '"FromClaim", "FromClass"'
                ),
                "allocation.devices.config[1].opaque.parameters: Required value",
            ],
        ),
        (
            {"allocation": {"devices": {"config": [{"source": "FromClaim"}] * 65, "results": [RESULT] * 33}}},
            [
                "allocation.devices.results: Too many: 33: must have at most 32 items",
                "allocation.devices.config: Too many: 65: must have at most 64 items",
            ],
        ),
        (
            {"allocation": {"nodeSelector": {}}},
            [("allocation.nodeSelector.nodeSelectorTerms: Required value: must have at least one node selector term")],
        ),
        (
            STATUS | {"devices": [DEVICE, DEVICE | {"device": "d1", "shareID": SHARE}, DEVICE]},
            [
                (
                    'devices[1]: Invalid value: {"Driver":"d.io","Pool":"p","Device":"d1",'
                    f'"ShareID":"{SHARE}"}}: must be an allocated device in the claim'
                ),
                'devices[2]: Duplicate value: {"Driver":"d.io","Pool":"p","Device":"d0","ShareID":""}',
            ],
        ),
        (
            STATUS
            | {
                "devices": [
                    DEVICE
                    | {
                        "data": "text",
                        "networkData": {
                            "interfaceName": "x" * 257,
                            "hardwareAddress": "x" * 129,
                            "ips": ["10.0.0.1", "10.0.0.1/8", "10.0.0.1/8"],
                        },
                        "conditions": [{"type": "T", "status": "True", "reason": "R", "lastTransitionTime": NOW}] * 9,
                    }
                ]
            },
            [
                "devices[0].conditions: Too many: 9: must have at most 8 items",
                *[f'devices[0].conditions[{i}].type: Duplicate value: "T"' for i in range(1, 9)],
                'devices[0].data: Invalid value: "<value omitted>": must be a valid JSON object',
                "devices[0].networkData.interfaceName: Too long: may not be more than 256 bytes",
                "devices[0].networkData.hardwareAddress: Too long: may not be more than 128 bytes",
                'devices[0].networkData.ips[0]: Invalid value: "10.0.0.1": must be a valid address in CIDR form,',
                'devices[0].networkData.ips[2]: Duplicate value: "10.0.0.1/8"',
            ],
        ),
    ],
)
def test_new_statuses(status: Any, expected: list[str]) -> None:
    assert problems(status) == expected


def test_allocation_can_be_set_or_cleared_but_not_changed() -> None:
    assert problems(STATUS, STATUS) == []
    assert problems({}, STATUS) == []
    (problem,) = problems(changed(device="d1"), STATUS)
    assert problem.startswith('allocation: Invalid value: {"Devices":{"Results":[{"Request":"r",')
    assert problem.endswith("field is immutable")


def test_stored_allocation_is_not_validated_again() -> None:
    broken = changed(driver="", request="gone")
    assert problems(broken, broken) == []


def test_deleted_claim_gets_no_new_consumers() -> None:
    more = STATUS | {"reservedFor": [*STATUS["reservedFor"], {"resource": "pods", "name": "q", "uid": "v"}]}
    dying = {"deletionTimestamp": NOW}
    assert problems(more, STATUS) == []
    assert problems(STATUS, more, **dying) == []
    assert problems(more, STATUS, **dying) == [
        (
            "reservedFor: Forbidden: new entries may not be added while `deallocationRequested` or `deletionTimestamp` "
            "are set"
        )
    ]


def test_device_statuses_are_removed_with_their_allocation() -> None:
    old = STATUS | {"devices": [DEVICE]}
    assert write({"devices": [DEVICE]}, old).value.status == claim({}).status
    assert write({"devices": [DEVICE]}, old).errors == []


def test_status_update_changes_only_the_status() -> None:
    new = claim(STATUS, labels={"a": "b"}, finalizers=["x/y"])
    old = claim({})
    stored = admission.update_status(new, old, CONTEXT, version="v1", now=NOW).value
    assert stored.metadata == old.metadata
    assert stored.status == new.status
    back = admission.update(stored, old, CONTEXT, version="v1", now=NOW).value
    assert back.status == old.status, "an update of the object keeps the status"


def test_admin_access_of_results_requires_the_label() -> None:
    wanted = claim(changed(adminAccess=True))
    denied = admission.update_status(wanted, claim({}), CONTEXT, version="v1", now=NOW)
    assert [error.path for error in denied.errors] == ["status.allocation.devices.results[0].adminAccess"]
    labels = {"resource.kubernetes.io/admin-access": "true"}
    allowed = admission.update_status(wanted, claim({}), CONTEXT, version="v1", now=NOW, namespace_labels=labels)
    assert allowed.errors == []
    assert admission.update_status(wanted, wanted, CONTEXT, version="v1", now=NOW).errors == [], (
        "granted admin access stays"
    )


def test_fields_of_disabled_features_are_dropped() -> None:
    off = ValidationContext(Features("1.34", {"DRAAdminAccess": False, "DRAResourceClaimDeviceStatus": False}), check)
    full = changed(
        adminAccess=True, shareID=SHARE, consumedCapacity={"m": "1"}, bindingConditions=["a"],
        bindingFailureConditions=["b"],
    ) | {"devices": [DEVICE | {"shareID": SHARE}]}  # fmt: skip
    assert write(full, context=off).value.status == claim(STATUS).status
    assert write(full, full, context=off).value.status == claim(full).status, "stored fields are kept"


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("10.9.8.7/24", "10.9.8.7/24"),
        ("010.9.8.007/024", "10.9.8.7/24"),
        ("2001:DB8:0::1/64", "2001:db8::1/64"),
        ("::ffff:1.2.3.4/120", "1.2.3.4/24"),
        ("::ffff:1.2.3.4/24", "1.2.3.4/24"),
        ("10.9.8.7", None),
        ("10.9.8.7/33", None),
        ("fe80::1%eth0/64", None),
        ("1.2.3/24", None),
        ("1.2.3.4/x", None),
    ],
)
def test_interface_addresses(text: str, canonical: str | None) -> None:
    found = [error.detail for error in interface_address(text, "a")]
    if canonical is None:
        assert found == ["must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"]
    else:
        assert found == ([] if canonical == text else [f'must be in canonical form ("{canonical}")'])


def results_problems(context: ValidationContext, **fields: Any) -> list[str]:
    found = texts(write(changed(**fields), context=context).errors)
    return [text.removeprefix("status.allocation.devices.results[0].") for text in found]


def test_tolerations_of_results_are_checked_since_1_37() -> None:
    bad = {"key": "k", "operator": "Exists", "value": "v", "effect": "X"}
    assert results_problems(CONTEXT, tolerations=[bad]) == []
    assert results_problems(CONTEXT_1_37, tolerations=[bad]) == [
        'tolerations[0].value: Invalid value: "v": must be empty for operator `Exists`',
        'tolerations[0].effect: Unsupported value: "X": supported values: "NoExecute", "NoSchedule", "None"',
    ]


def test_skipped_operations_of_results() -> None:
    alone = ["NodePrepareResources"]
    assert results_problems(CONTEXT_1_37, skipNodeOperations=[*alone, "*"]) == []
    (found,) = results_problems(CONTEXT_1_37, skipNodeOperations=alone)
    assert found.startswith('skipNodeOperations: Invalid value: ["NodePrepareResources"]: NodePrepareResources cannot')
    off = write(changed(skipNodeOperations=alone), context=PLAIN_1_37)
    assert off.errors == []
    assert off.value.status.allocation.devices.results[0].skip_node_operations == ()
    stored = write(changed(skipNodeOperations=["*"]), context=CONTEXT_1_37).value
    kept = admission.update_status(stored, stored, PLAIN_1_37, version="v1", now=NOW)
    assert kept.value.status == stored.status


def test_two_conditions_of_one_type_in_the_words_of_each_release() -> None:
    condition = {"type": "A", "status": "True", "reason": "R", "lastTransitionTime": NOW}
    status = STATUS | {"devices": [DEVICE | {"conditions": [condition, condition]}]}
    for context, key in ((CONTEXT, ".type"), (CONTEXT_1_37, "")):
        assert texts(write(status, context=context).errors) == [
            f'status.devices[0].conditions[1]{key}: Duplicate value: "A"'
        ]


def test_messages_have_the_fields_of_the_release() -> None:
    """An immutable value is shown as the Go type of the release; from 1.37 on it is not shown."""
    new, old = changed(device="d1"), STATUS
    (before,) = texts(write(new, old).errors)
    assert '"Device":"d1"' in before
    assert "SkipNodeOperations" not in before
    (after,) = texts(write(new, old, context=CONTEXT_1_37).errors)
    assert after == "status.allocation: Invalid value: null: field cannot be modified once set"


def pools(status: Any = None, **spec: Any) -> ResourcePoolStatusRequest:
    tree = {"metadata": {"name": "r", "resourceVersion": "1"}, "spec": {"driver": "d.io"} | spec, "status": status}
    return value(ResourcePoolStatusRequest, tree)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, []),
        ({"driver": "UPPER.io"}, []),
        ({"driver": ""}, ["spec.driver: Required value"]),
        ({"limit": 0}, ["spec.limit: Invalid value: 0: must be greater than or equal to 1"]),
        ({"limit": 1001}, ["spec.limit: Invalid value: 1001: must be less than or equal to 1000"]),
        ({"poolName": "a//b"}, ['spec.poolName: Invalid value: "a//b": segment 1: must not be empty']),
    ],
)
def test_pool_status_requests(spec: dict[str, Any], expected: list[str]) -> None:
    admitted = admission.create(pools({"poolCount": 1}, **spec), CONTEXT, version="v1alpha3", now=NOW)
    assert texts(admitted.errors) == expected
    assert admitted.value.status is None
    assert admitted.value.spec.limit == spec.get("limit", 100)


def test_pool_status_is_written_once() -> None:
    answer = {"poolCount": -1, "pools": [{"driver": "d", "poolName": "p", "generation": 1, "totalDevices": -1}]}
    new, old = pools(answer, limit=1), pools(limit=1)
    found = admission.update_status(new, old, CONTEXT, version="v1alpha3", now=NOW)
    assert texts(found.errors) == [
        "status.poolCount: Invalid value: -1: must be greater than or equal to 0",
        "status.pools[0].totalDevices: Invalid value: -1: must be greater than or equal to 0",
    ]
    again = admission.update_status(pools({"poolCount": 2}, limit=1), new, CONTEXT, version="v1alpha3", now=NOW)
    assert texts(again.errors) == [
        'status: Invalid value: {"PoolCount":2,"Pools":null,"Conditions":null}: field is immutable'
    ]


@pytest.mark.parametrize(
    ("attribute", "expected"),
    [
        ("d.io/profile", []),
        (
            "profile",
            ['Invalid value: "profile": a fully qualified name must be a domain and a name separated by a slash'],
        ),
    ],
)
def test_default_partition_type_of_a_pool_status_request(attribute: str, expected: list[str]) -> None:
    new = pools(defaultPartitionTypeAttribute=attribute)
    admitted = admission.create(new, CONTEXT_1_37, version="v1alpha3", now=NOW)
    assert texts(admitted.errors) == [f"spec.defaultPartitionTypeAttribute: {text}" for text in expected]
    off = admission.create(new, ValidationContext(Features("1.37"), check), version="v1alpha3", now=NOW)
    assert (off.errors, off.value.spec.default_partition_type_attribute) == ([], None)


def test_summaries_of_a_pool() -> None:
    partition = {"attribute": "d.io/profile", "type": "1g", "total": 1, "allocatable": -1}
    pool = {
        "driver": "d",
        "poolName": "p",
        "generation": 1,
        "partitionSummary": [partition, partition],
        "shareableSummary": {"fullyAvailableDevices": 1, "capacity": [{"total": "1", "consumed": "1"}]},
    }
    found = admission.update_status(
        pools({"poolCount": 1, "pools": [pool]}, limit=1), pools(limit=1), CONTEXT_1_37, version="v1alpha3", now=NOW
    )
    (repeated, first, second, *shareable) = [text.removeprefix("status.pools[0].") for text in texts(found.errors)]
    assert repeated.startswith('partitionSummary[1]: Duplicate value: {"attribute":"d.io/profile","type":"1g"')
    assert (first, second) == tuple(
        f"partitionSummary[{index}].allocatable: Invalid value: -1: must be greater than or equal to 0"
        for index in (0, 1)
    )
    assert shareable == [
        "shareableSummary.partiallyAvailableDevices: Required value",
        "shareableSummary.capacity[0].name: Required value",
        "shareableSummary.capacity[0].available: Required value",
    ]


def test_status_of_a_taint_rule() -> None:
    condition = {"type": "EvictionInProgress", "status": "True", "reason": "R", "lastTransitionTime": NOW}
    meta = {"metadata": {"name": "r", "resourceVersion": "1"}}
    old = value(DeviceTaintRule, meta)
    for count, expected in ((1, 0), (9, 9)):
        new = value(DeviceTaintRule, meta | {"status": {"conditions": [condition] * count}})
        assert len(admission.update_status(new, old, CONTEXT, version="v1beta2", now=NOW).errors) == expected


def test_kinds_without_a_status() -> None:
    from allotment.model.resource import DeviceClass

    with pytest.raises(LookupError, match="DeviceClass has no status"):
        admission.update_status(DeviceClass(), DeviceClass(), CONTEXT, version="v1", now=NOW)
