"""Requests by names that the claim does not have."""

from __future__ import annotations

from typing import Any

import pytest

from allotment.tools.check.rules.meaning import no_such_request
from tests.unit.tools.check.rules.meaning.manifests import gpu_request, by_claim, claim, matches_of, fixed_documents, pod, template, levels_and_paths

RULE = no_such_request.RULE

USE = "Pod spec.containers[0].resources.claims[0].request"
EITHER = {
    "name": "gpu",
    "firstAvailable": [
        {"name": "large", "deviceClassName": "gpu.nvidia.com"},
        {"name": "small", "deviceClassName": "mig.nvidia.com"},
    ],
}


def test_a_container_that_would_start_without_a_device() -> None:
    texts = (template(gpu_request("mps-gpu")), pod([{"name": "gpu", "request": "ts-gpu"}]))
    assert levels_and_paths(RULE, *texts) == [("error", USE)]
    (one,) = matches_of(RULE, *texts)
    assert one.message == (
        "container app names request ts-gpu, which template gpu does not have (it has mps-gpu): "
        "Kubernetes starts it without a device"
    )
    assert fixed_documents(RULE, *texts)[1]["spec"]["containers"][0]["resources"]["claims"] == [
        {"name": "gpu", "request": "mps-gpu"}
    ]


def test_the_near_one_of_several_is_meant() -> None:
    (near,) = matches_of(RULE, template(gpu_request("large"), gpu_request("small")), pod([{"name": "gpu", "request": "smal"}]))
    assert near.fix is not None
    assert near.fix.text == "name request small"
    (far,) = matches_of(RULE, template(gpu_request("large"), gpu_request("small")), pod([{"name": "gpu", "request": "xyz"}]))
    assert far.fix is None


def test_containers_name_whole_requests() -> None:
    (one,) = matches_of(RULE, template(EITHER), pod([{"name": "gpu", "request": "gpu/small"}]))
    assert "not its alternative small" in one.message
    assert one.fix is not None
    assert one.fix.text == "name request gpu"
    assert levels_and_paths(RULE, template(EITHER), pod([{"name": "gpu", "request": "gpu"}])) == []
    (unknown,) = matches_of(RULE, pod([{"name": "gpu", "request": "gpu/small"}], resourceClaims=by_claim("elsewhere")))
    assert unknown.fix is None


@pytest.mark.parametrize("field", ["constraints", "config"])
def test_within_the_claim_alternatives_have_names(field: str) -> None:
    def item(*names: str) -> dict[str, object]:
        return {"requests": list(names), "matchAttribute": "gpu.nvidia.com/productName"}

    def holding(*names: str) -> str:
        devices: dict[str, Any] = {field: [item(*names)]}
        return claim(EITHER, **devices)

    assert levels_and_paths(RULE, holding("gpu", "gpu/small")) == []
    where = f"ResourceClaim spec.devices.{field}[0].requests[1]"
    assert levels_and_paths(RULE, holding("gpu", "small")) == [("error", where)]


def test_of_claims_that_are_not_known_nothing_is_said() -> None:
    use = pod([{"name": "gpu", "request": "ts-gpu"}], resourceClaims=by_claim("elsewhere"))
    assert levels_and_paths(RULE, use) == []
    nameless = {"exactly": {"deviceClassName": "gpu.nvidia.com"}}
    assert levels_and_paths(RULE, template(nameless), pod([{"name": "gpu", "request": "ts-gpu"}])) == []


def test_the_cluster_knows_claims_too() -> None:
    use = pod([{"name": "gpu", "request": "ts-gpu"}], resourceClaims=by_claim())
    assert levels_and_paths(RULE, use, cluster=claim(gpu_request("mps-gpu"), namespace="default")) == [("error", USE)]
