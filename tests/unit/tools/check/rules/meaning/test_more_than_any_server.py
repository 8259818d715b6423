"""M412: more devices than any machine has."""

from __future__ import annotations

import pytest

from allotment.tools.check.rules.meaning import more_than_any_server
from tests.unit.tools.check.rules.meaning.manifests import (
    claim,
    gpu_request,
    levels_and_paths,
    pod,
    request_with_selector,
    template,
)

RULE = more_than_any_server.RULE


def mig_request(count: int, profile: str) -> dict[str, object]:
    """A request for MIG devices of a profile."""
    selector = {"cel": {"expression": f'device.attributes["gpu.nvidia.com"].profile == "{profile}"'}}
    return gpu_request(deviceClassName="mig.nvidia.com", count=count, selectors=[selector])


@pytest.mark.parametrize(
    ("request_", "too_many"),
    [
        (gpu_request(count=8), False),
        (gpu_request(count=16), False),  # DGX-2
        (gpu_request(count=17), True),
        (gpu_request(deviceClassName="gpu.amd.com", count=32), False),  # these may be partitions
        (mig_request(16, "7g.40gb"), False),
        (mig_request(17, "7g.40gb"), True),
        (mig_request(32, "1g.5gb"), False),
        (mig_request(32, "9g.99gb"), False),  # V307
        (gpu_request(deviceClassName="some-class", count=32), False),
    ],
)
def test_single_request(request_: dict[str, object], too_many: bool) -> None:
    where = "ResourceClaim spec.devices.requests[0].exactly.count"
    assert levels_and_paths(RULE, claim(request_)) == ([("warning", where)] if too_many else [])


@pytest.mark.parametrize(
    "requests", [(gpu_request(count=33),), (gpu_request("a", count=20), gpu_request("b", count=13))]
)
def test_claim_is_limited_to_32_devices(requests: tuple[dict[str, object], ...]) -> None:
    where = "ResourceClaim spec.devices.requests[0].exactly.count"
    assert levels_and_paths(RULE, claim(*requests)) == [("error", where)]


def test_device_type_from_selectors() -> None:
    request = request_with_selector('device.attributes["gpu.amd.com"].type == "amdgpu"')
    request["exactly"].update(deviceClassName="gpu.amd.com", count=20)
    assert levels_and_paths(RULE, claim(request)) != []


def test_requests_of_a_claim_are_added_up() -> None:
    assert levels_and_paths(RULE, claim(gpu_request("a", count=9), gpu_request("b", count=9))) == [
        ("warning", "ResourceClaim spec.devices.requests[1].exactly.count")
    ]
    shares = {"capacity": {"requests": {"memory": "1Gi"}}}
    assert levels_and_paths(RULE, claim(gpu_request("a", count=9, **shares), gpu_request("b", count=9, **shares))) == []


def test_alternatives_are_not_added_up() -> None:
    either = {
        "name": "gpu",
        "firstAvailable": [{"name": n, "deviceClassName": "gpu.nvidia.com", "count": 9} for n in ("a", "b")],
    }
    assert levels_and_paths(RULE, claim(either)) == []


def test_claims_of_a_pod_are_added_up() -> None:
    entries = [{"name": name, "resourceClaimTemplateName": "gpu"} for name in ("one", "two")]
    using = pod([{"name": "one"}, {"name": "two"}], resourceClaims=entries)
    assert levels_and_paths(RULE, template(gpu_request(count=9)), using) == [("warning", "Pod spec.resourceClaims")]
    assert levels_and_paths(RULE, template(gpu_request(count=8)), using) == []
