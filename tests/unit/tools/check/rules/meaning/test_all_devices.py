"""M401: all devices of a node, intended or not."""

from __future__ import annotations

import pytest

from allotment.tools.check.rules.meaning import all_devices
from tests.unit.tools.check.rules.meaning.manifests import (
    claim,
    fixed_documents,
    gpu_request,
    levels_and_paths,
    template,
)

RULE = all_devices.RULE


@pytest.mark.parametrize("name", ["gpu", "single-gpu-claim", "accelerator", "gpu-0"])
def test_name_of_a_single_device(name: str) -> None:
    where = "ResourceClaim spec.devices.requests[0].exactly.allocationMode"
    assert levels_and_paths(RULE, claim(gpu_request(name, allocationMode="All"))) == [("warning", where)]


@pytest.mark.parametrize(
    ("request_name", "claim_name"),
    [("gpus", "claim"), ("all-gpu", "claim"), ("gpu", "whole-node"), ("gpu", "all-devices"), ("nics", "network")],
)
def test_names_for_all_devices_are_not_reported(request_name: str, claim_name: str) -> None:
    assert levels_and_paths(RULE, claim(gpu_request(request_name, allocationMode="All"), name=claim_name)) == []


def test_request_name_takes_precedence() -> None:
    assert levels_and_paths(RULE, claim(gpu_request("single-gpu", allocationMode="All"), name="all-gpus")) != []


def test_admin_access_is_not_reported() -> None:
    assert levels_and_paths(RULE, template(gpu_request(allocationMode="All", adminAccess=True))) == []


def test_fix_requests_one_device() -> None:
    (tree,) = fixed_documents(RULE, claim(gpu_request(allocationMode="All")))
    assert tree["spec"]["devices"]["requests"][0]["exactly"] == {"deviceClassName": "gpu.nvidia.com"}
    assert levels_and_paths(RULE, claim(gpu_request(allocationMode="ExactCount", count=2))) == []
