"""Total requests and limits of pods, compared with recorded amounts of Kubernetes, the scheduler and quotas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from allotment.model.pod_resources import Amounts, pod_limits, pod_requests, with_default_requests
from allotment.model.quantity import Quantity
from allotment.model.quota import usage
from allotment.model.trees import Tree
from allotment.node_fit.pod_requirements import PodRequirementsCache

RECORDED = yaml.safe_load((Path(__file__).parent / "pod_resources.yaml").read_text())
DEFAULTS = {"cpu": Quantity.parse("100m"), "memory": Quantity.of_int(200 << 20)}


def as_text(amounts: Amounts) -> dict[str, str]:
    return {name: str(amount) for name, amount in amounts.items()}


def units(amounts: dict[str, str]) -> dict[str, int]:
    found = {name: Quantity.parse(text).nano // (10**6 if name == "cpu" else 10**9) for name, text in amounts.items()}
    return {name: n for name, n in found.items() if n}


@pytest.mark.parametrize("case", RECORDED, ids=lambda case: case["name"])
def test_amounts_match_recorded_amounts(case: Any) -> None:
    spec, status = case["spec"], case.get("status", {})
    from_spec = {part: case[part] for part in ("requests", "limits")}
    assert {"requests": as_text(pod_requests(spec)), "limits": as_text(pod_limits(spec))} == from_spec
    current = {"requests": as_text(pod_requests(spec, status)), "limits": as_text(pod_limits(spec, status))}
    assert current == case.get("in status", from_spec)
    assert as_text(pod_requests(spec, overhead=False)) == case.get("without overhead", case["requests"])
    assert as_text(pod_requests(spec, missing=DEFAULTS)) == case.get("scored", case["requests"])


@pytest.mark.parametrize("case", RECORDED, ids=lambda case: case["name"])
def test_scheduler_and_quotas_use_the_same_amounts(case: Any) -> None:
    spec, status = case["spec"], case.get("status", {})
    stored = with_default_requests(spec)
    pending = PodRequirementsCache().of(stored)
    assert pending.requests == units(as_text(pod_requests(stored)))
    on_node = PodRequirementsCache().of(stored, status)
    assert on_node.requests == units(as_text(pod_requests(stored, status)))
    counted = usage("pods", {"spec": spec, "status": status})
    current = case.get("in quotas", case.get("in status", case)["requests"])
    assert {name: str(counted[f"requests.{name}"]) for name in current} == current


def test_spec_from_a_file_counts_like_the_stored_spec() -> None:
    container = {"resources": {"limits": {"cpu": "2", "example.com/gpu": "1"}, "requests": {"cpu": "1"}}}
    init = {"resources": {"limits": {"memory": "1Gi"}}}
    whole = {"limits": {"cpu": "4", "memory": "3Gi"}}
    spec = {"containers": [container], "initContainers": [init], "resources": whole}
    stored = with_default_requests(spec)
    # The pod-level requests default to the requests of the containers, and otherwise to the pod-level limits.
    assert stored["resources"]["requests"] == {"cpu": "1", "memory": "1Gi"}
    assert as_text(pod_requests(stored)) == {"cpu": "1", "memory": "1Gi", "example.com/gpu": "1"}
    assert PodRequirementsCache().of(spec).requests == {"cpu": 1000, "memory": 1 << 30, "example.com/gpu": 1}
    assert with_default_requests(stored) is stored


def test_pod_without_resize_has_the_requirements_of_pending_pods() -> None:
    demands = PodRequirementsCache()
    spec: Tree = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "500m"}}}]}
    pending = demands.of(spec)
    running = {"name": "c", "resources": {"requests": {"cpu": "500m"}}, "allocatedResources": {"cpu": "500m"}}
    assert demands.of(spec, {"containerStatuses": [running]}) is pending
    assert demands.of(spec, {"containerStatuses": [{**running, "allocatedResources": {"cpu": "0.5"}}]}) is pending
    resized = demands.of(spec, {"containerStatuses": [{**running, "allocatedResources": {"cpu": "2"}}]})
    assert (resized.requests, resized.scored_cpu) == ({"cpu": 2000}, 2000)
