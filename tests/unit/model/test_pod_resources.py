"""What pods request as a whole: Kubernetes' own numbers, and those of everything here that shows or counts them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from allotment.model.pod_resources import Amounts, pod_limits, pod_requests, with_default_requests
from allotment.model.quantity import Quantity
from allotment.model.quota import usage
from allotment.model.trees import Tree
from allotment.node_fit.pod_requirements import Demands

RECORDED = yaml.safe_load((Path(__file__).parent / "pod_resources.yaml").read_text())
SILENT = {"cpu": Quantity.parse("100m"), "memory": Quantity.of_int(200 << 20)}


def shown(amounts: Amounts) -> dict[str, str]:
    return {name: str(amount) for name, amount in amounts.items()}


def units(amounts: dict[str, str]) -> dict[str, int]:
    found = {name: Quantity.parse(text).nano // (10**6 if name == "cpu" else 10**9) for name, text in amounts.items()}
    return {name: n for name, n in found.items() if n}


@pytest.mark.parametrize("case", RECORDED, ids=lambda case: case["name"])
def test_amounts_are_those_of_kubernetes(case: Any) -> None:
    spec, status = case["spec"], case.get("status", {})
    alone = {part: case[part] for part in ("requests", "limits")}
    assert {"requests": shown(pod_requests(spec)), "limits": shown(pod_limits(spec))} == alone
    now = {"requests": shown(pod_requests(spec, status)), "limits": shown(pod_limits(spec, status))}
    assert now == case.get("in status", alone)
    assert shown(pod_requests(spec, overhead=False)) == case.get("without overhead", case["requests"])
    assert shown(pod_requests(spec, missing=SILENT)) == case.get("scored", case["requests"])


@pytest.mark.parametrize("case", RECORDED, ids=lambda case: case["name"])
def test_the_scheduler_and_quotas_count_the_same(case: Any) -> None:
    spec, status = case["spec"], case.get("status", {})
    stored = with_default_requests(spec)
    waiting = Demands().of(stored)
    assert waiting.requests == units(shown(pod_requests(stored)))
    on_node = Demands().of(stored, status)
    assert on_node.requests == units(shown(pod_requests(stored, status)))
    counted = usage("pods", {"spec": spec, "status": status})
    now = case.get("in quotas", case.get("in status", case)["requests"])
    assert {name: str(counted[f"requests.{name}"]) for name in now} == now


def test_a_spec_from_a_file_counts_as_the_one_that_is_stored() -> None:
    container = {"resources": {"limits": {"cpu": "2", "example.com/gpu": "1"}, "requests": {"cpu": "1"}}}
    init = {"resources": {"limits": {"memory": "1Gi"}}}
    whole = {"limits": {"cpu": "4", "memory": "3Gi"}}
    spec = {"containers": [container], "initContainers": [init], "resources": whole}
    stored = with_default_requests(spec)
    # The pod requests what its containers do, where they do, and elsewhere what it is limited to.
    assert stored["resources"]["requests"] == {"cpu": "1", "memory": "1Gi"}
    assert shown(pod_requests(stored)) == {"cpu": "1", "memory": "1Gi", "example.com/gpu": "1"}
    assert Demands().of(spec).requests == {"cpu": 1000, "memory": 1 << 30, "example.com/gpu": 1}
    assert with_default_requests(stored) is stored


def test_a_pod_that_is_not_resized_is_one_demand_with_those_that_wait() -> None:
    demands = Demands()
    spec: Tree = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "500m"}}}]}
    waiting = demands.of(spec)
    running = {"name": "c", "resources": {"requests": {"cpu": "500m"}}, "allocatedResources": {"cpu": "500m"}}
    assert demands.of(spec, {"containerStatuses": [running]}) is waiting
    assert demands.of(spec, {"containerStatuses": [{**running, "allocatedResources": {"cpu": "0.5"}}]}) is waiting
    resized = demands.of(spec, {"containerStatuses": [{**running, "allocatedResources": {"cpu": "2"}}]})
    assert (resized.requests, resized.scored_cpu) == ({"cpu": 2000}, 2000)
