"""More devices than any machine has."""

from __future__ import annotations

import pytest

from allotment.tools.check.rules.meaning import more_than_any_server
from tests.unit.tools.check.rules.meaning.manifests import asking, claim, pod, selecting, template, told

RULE = more_than_any_server.RULE


def slices(count: int, profile: str) -> dict[str, object]:
    """A request for MIG devices of a profile."""
    selector = {"cel": {"expression": f'device.attributes["gpu.nvidia.com"].profile == "{profile}"'}}
    return asking(deviceClassName="mig.nvidia.com", count=count, selectors=[selector])


@pytest.mark.parametrize(
    ("request_", "too_many"),
    [
        (asking(count=8), False),
        (asking(count=16), False),  # DGX-2 has them
        (asking(count=17), True),
        (asking(deviceClassName="gpu.amd.com", count=32), False),  # these may be partitions
        (slices(16, "7g.40gb"), False),
        (slices(17, "7g.40gb"), True),
        (slices(32, "1g.5gb"), False),
        (slices(32, "9g.99gb"), False),  # V307
        (asking(deviceClassName="some-class", count=32), False),
    ],
)
def test_one_request(request_: dict[str, object], too_many: bool) -> None:
    where = "ResourceClaim spec.devices.requests[0].exactly.count"
    assert told(RULE, claim(request_)) == ([("warning", where)] if too_many else [])


@pytest.mark.parametrize("requests", [(asking(count=33),), (asking("a", count=20), asking("b", count=13))])
def test_a_claim_is_given_32_devices_at_most(requests: tuple[dict[str, object], ...]) -> None:
    where = "ResourceClaim spec.devices.requests[0].exactly.count"
    assert told(RULE, claim(*requests)) == [("error", where)]


def test_types_are_read_from_selectors() -> None:
    whole = selecting('device.attributes["gpu.amd.com"].type == "amdgpu"')
    whole["exactly"].update(deviceClassName="gpu.amd.com", count=20)
    assert told(RULE, claim(whole)) != []


def test_requests_of_a_claim_come_from_one_node() -> None:
    assert told(RULE, claim(asking("a", count=9), asking("b", count=9))) == [
        ("warning", "ResourceClaim spec.devices.requests[1].exactly.count")
    ]
    shares = {"capacity": {"requests": {"memory": "1Gi"}}}
    assert told(RULE, claim(asking("a", count=9, **shares), asking("b", count=9, **shares))) == []


def test_alternatives_are_not_asked_for_together() -> None:
    either = {
        "name": "gpu",
        "firstAvailable": [{"name": n, "deviceClassName": "gpu.nvidia.com", "count": 9} for n in ("a", "b")],
    }
    assert told(RULE, claim(either)) == []


def test_a_pod_runs_on_one_node() -> None:
    entries = [{"name": name, "resourceClaimTemplateName": "gpu"} for name in ("one", "two")]
    using = pod([{"name": "one"}, {"name": "two"}], resourceClaims=entries)
    assert told(RULE, template(asking(count=9)), using) == [("warning", "Pod spec.resourceClaims")]
    assert told(RULE, template(asking(count=8)), using) == []
