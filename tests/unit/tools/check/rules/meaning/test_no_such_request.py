"""M404: references to requests that the claim does not have."""

from __future__ import annotations

from typing import Any

import pytest

from allotment.tools.check.rules.meaning import no_such_request
from tests.unit.tools.check.rules.meaning.manifests import (
    by_claim,
    claim,
    fixed_documents,
    gpu_request,
    levels_and_paths,
    matches_of,
    pod,
    template,
)

RULE = no_such_request.RULE

USE = "Pod spec.containers[0].resources.claims[0].request"
EITHER = {
    "name": "gpu",
    "firstAvailable": [
        {"name": "large", "deviceClassName": "gpu.nvidia.com"},
        {"name": "small", "deviceClassName": "mig.nvidia.com"},
    ],
}


def test_container_names_an_unknown_request() -> None:
    texts = (template(gpu_request("mps-gpu")), pod([{"name": "gpu", "request": "ts-gpu"}]))
    assert levels_and_paths(RULE, *texts) == [("error", USE)]
    (match,) = matches_of(RULE, *texts)
    assert match.message == (
        "container app refers to request ts-gpu, which template gpu does not have (its requests: mps-gpu); "
        "Kubernetes starts the container without a device"
    )
    assert fixed_documents(RULE, *texts)[1]["spec"]["containers"][0]["resources"]["claims"] == [
        {"name": "gpu", "request": "mps-gpu"}
    ]


def test_similar_request_is_suggested() -> None:
    (near,) = matches_of(
        RULE, template(gpu_request("large"), gpu_request("small")), pod([{"name": "gpu", "request": "smal"}])
    )
    assert near.fix is not None
    assert near.fix.text == "name request small"
    (far,) = matches_of(
        RULE, template(gpu_request("large"), gpu_request("small")), pod([{"name": "gpu", "request": "xyz"}])
    )
    assert far.fix is None


def test_container_names_an_alternative() -> None:
    (match,) = matches_of(RULE, template(EITHER), pod([{"name": "gpu", "request": "gpu/small"}]))
    assert "not its alternative small" in match.message
    assert match.fix is not None
    assert match.fix.text == "name request gpu"
    assert levels_and_paths(RULE, template(EITHER), pod([{"name": "gpu", "request": "gpu"}])) == []
    (unknown,) = matches_of(RULE, pod([{"name": "gpu", "request": "gpu/small"}], resourceClaims=by_claim("elsewhere")))
    assert unknown.fix is None


@pytest.mark.parametrize("field", ["constraints", "config"])
def test_constraints_and_config_may_name_alternatives(field: str) -> None:
    def item(*names: str) -> dict[str, object]:
        return {"requests": list(names), "matchAttribute": "gpu.nvidia.com/productName"}

    def holding(*names: str) -> str:
        devices: dict[str, Any] = {field: [item(*names)]}
        return claim(EITHER, **devices)

    assert levels_and_paths(RULE, holding("gpu", "gpu/small")) == []
    where = f"ResourceClaim spec.devices.{field}[0].requests[1]"
    assert levels_and_paths(RULE, holding("gpu", "small")) == [("error", where)]


def test_unknown_claims_are_not_reported() -> None:
    use = pod([{"name": "gpu", "request": "ts-gpu"}], resourceClaims=by_claim("elsewhere"))
    assert levels_and_paths(RULE, use) == []
    nameless = {"exactly": {"deviceClassName": "gpu.nvidia.com"}}
    assert levels_and_paths(RULE, template(nameless), pod([{"name": "gpu", "request": "ts-gpu"}])) == []


def test_claims_of_the_cluster_are_checked() -> None:
    use = pod([{"name": "gpu", "request": "ts-gpu"}], resourceClaims=by_claim())
    assert levels_and_paths(RULE, use, cluster=claim(gpu_request("mps-gpu"), namespace="default")) == [("error", USE)]
