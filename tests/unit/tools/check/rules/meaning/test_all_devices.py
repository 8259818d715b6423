"""All devices of a node, meant or not."""

from __future__ import annotations

import pytest

from allotment.tools.check.rules.meaning import all_devices
from tests.unit.tools.check.rules.meaning.manifests import gpu_request, claim, fixed_documents, template, levels_and_paths

RULE = all_devices.RULE


@pytest.mark.parametrize("name", ["gpu", "single-gpu-claim", "accelerator", "gpu-0"])
def test_one_seems_to_be_meant(name: str) -> None:
    where = "ResourceClaim spec.devices.requests[0].exactly.allocationMode"
    assert levels_and_paths(RULE, claim(gpu_request(name, allocationMode="All"))) == [("warning", where)]


@pytest.mark.parametrize(
    ("request_name", "claim_name"),
    [("gpus", "claim"), ("all-gpu", "claim"), ("gpu", "whole-node"), ("gpu", "all-devices"), ("nics", "network")],
)
def test_a_name_says_that_all_are_meant(request_name: str, claim_name: str) -> None:
    assert levels_and_paths(RULE, claim(gpu_request(request_name, allocationMode="All"), name=claim_name)) == []


def test_the_request_says_one_whatever_the_claim_says() -> None:
    assert levels_and_paths(RULE, claim(gpu_request("single-gpu", allocationMode="All"), name="all-gpus")) != []


def test_observers_take_nothing_away() -> None:
    assert levels_and_paths(RULE, template(gpu_request(allocationMode="All", adminAccess=True))) == []


def test_one_is_the_default() -> None:
    (tree,) = fixed_documents(RULE, claim(gpu_request(allocationMode="All")))
    assert tree["spec"]["devices"]["requests"][0]["exactly"] == {"deviceClassName": "gpu.nvidia.com"}
    assert levels_and_paths(RULE, claim(gpu_request(allocationMode="ExactCount", count=2))) == []
