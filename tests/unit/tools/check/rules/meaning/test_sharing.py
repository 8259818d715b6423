"""M407, M408 and M417: unintended sharing, sharing without effect, and too many pods on one claim."""

from __future__ import annotations

from typing import Any

import pytest

from allotment.tools.check.rules.meaning import shared_by_replicas, sharing_alone, too_many_pods
from tests.unit.tools.check.rules.meaning.manifests import (
    SHARING,
    by_claim,
    claim,
    gpu_request,
    levels_and_paths,
    matches_of,
    pod,
    template,
    workload,
)

REPLICAS, ALONE, MANY = shared_by_replicas.RULE, sharing_alone.RULE, too_many_pods.RULE


@pytest.mark.parametrize(
    ("kind", "more"),
    [("Deployment", {"replicas": 2}), ("StatefulSet", {"replicas": 3}), ("Job", {"parallelism": 4}), ("DaemonSet", {})],
)
def test_replicas_share_one_claim(kind: str, more: dict[str, Any]) -> None:
    using = workload(kind, resourceClaims=by_claim(), **more)
    where = f"{kind} spec.template.spec.resourceClaims[0].resourceClaimName"
    assert levels_and_paths(REPLICAS, claim(), using) == [("warning", where)]


@pytest.mark.parametrize(
    "text",
    [
        claim(config=[SHARING]),
        claim(gpu_request(capacity={"requests": {"memory": "8Gi"}})),
        claim(gpu_request(adminAccess=True)),
        claim(gpu_request(deviceClassName="compute-domain-default-channel.nvidia.com")),
    ],
)
def test_intended_sharing_is_not_reported(text: str) -> None:
    assert levels_and_paths(REPLICAS, text, workload(replicas=2, resourceClaims=by_claim())) == []


def test_names_that_mention_sharing_are_not_reported() -> None:
    text = claim(name="shared-gpu")
    assert levels_and_paths(REPLICAS, text, workload(replicas=2, resourceClaims=by_claim("shared-gpu"))) == []


def test_single_pods_may_share_a_claim() -> None:
    assert (
        levels_and_paths(REPLICAS, claim(), pod(resourceClaims=by_claim()), workload(resourceClaims=by_claim())) == []
    )
    assert levels_and_paths(REPLICAS, template(), workload(replicas=2)) == []


def test_sharing_parameters_of_the_class_count() -> None:
    shared = f"""\
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {{name: gpu.nvidia.com}}
spec: {{config: [{SHARING}]}}
"""
    assert levels_and_paths(REPLICAS, shared, claim(), workload(replicas=2, resourceClaims=by_claim())) == []


# --- parameters for sharing in a template ----------------------------------------------------------------------------

WHERE = "ResourceClaimTemplate spec.spec.devices.config[0].opaque.parameters.sharing"


def test_template_shares_nothing_between_pods() -> None:
    assert levels_and_paths(ALONE, template(config=[SHARING]), workload(replicas=3)) == [("warning", WHERE)]
    assert levels_and_paths(ALONE, template(config=[SHARING]), pod(), pod(name="second")) == [("warning", WHERE)]
    (match,) = matches_of(ALONE, template(config=[SHARING]), workload(replicas=3))
    assert match.message.startswith("TimeSlicing has no effect")


def test_single_container_is_a_note() -> None:
    assert levels_and_paths(ALONE, template(config=[SHARING]), pod()) == [("note", WHERE)]


def test_containers_of_a_pod_share_a_device() -> None:
    two = [{"name": name, "resources": {"claims": [{"name": "gpu"}]}} for name in ("one", "two")]
    assert levels_and_paths(ALONE, template(config=[SHARING]), pod(containers=two)) == []


def test_only_containers_of_the_request_count() -> None:
    requests = (gpu_request("shared"), gpu_request("own"))
    config = [{**SHARING, "requests": ["shared"]}]
    apart = [{"name": name, "resources": {"claims": [{"name": "gpu", "request": name}]}} for name in ("shared", "own")]
    assert levels_and_paths(ALONE, template(*requests, config=config), pod(containers=apart)) == [("note", WHERE)]


def test_unused_templates_and_claims_are_not_reported() -> None:
    assert levels_and_paths(ALONE, template(config=[SHARING])) == []
    assert levels_and_paths(ALONE, claim(config=[SHARING]), workload(replicas=3, resourceClaims=by_claim())) == []


# --- too many --------------------------------------------------------------------------------------------------------


def test_claim_is_limited_to_256_pods() -> None:
    where = "Deployment spec.template.spec.resourceClaims[0].resourceClaimName"
    assert levels_and_paths(MANY, claim(), workload(replicas=257, resourceClaims=by_claim())) == [("error", where)]
    assert levels_and_paths(MANY, claim(), workload(replicas=256, resourceClaims=by_claim())) == []
    assert levels_and_paths(MANY, template(), workload(replicas=1000)) == []


def test_pods_of_all_workloads_are_counted() -> None:
    second = workload(name="b", replicas=57, resourceClaims=by_claim())
    (match,) = matches_of(MANY, claim(), workload(replicas=200, resourceClaims=by_claim()), second)
    assert match.document.name == "app"
    assert match.message.startswith("257 pods of Deployment default/app and 1 other workload reference claim gpu")
