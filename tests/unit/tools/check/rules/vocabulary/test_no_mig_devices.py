"""V315: MIG devices in a cluster without MIG."""

from __future__ import annotations

from typing import Any

import pytest

from allotment.model.loading import load_text
from allotment.tools.check.fixer import fix
from allotment.tools.check.rules.vocabulary import no_mig_devices
from allotment.tools.check.run import check
from tests.unit.tools.check.bundles import bundle_of
from tests.unit.tools.check.rules.vocabulary.rule_results import (
    NVIDIA,
    claim,
    fixed_document,
    levels_and_messages,
    matches_of,
)

RULE = no_mig_devices.RULE
PROFILE = f'{NVIDIA}.profile == "1g.10gb"'
LARGE = 'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("10G")) >= 0'
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: notebook}
spec:
  containers:
  - name: main
    resources:
      limits:
        nvidia.com/mig-1g.10gb: 2
"""
#: A cluster that is more than hardware: its nodes have only the resources that they state.
NAMESPACE = "apiVersion: v1\nkind: Namespace\nmetadata: {name: default}\n"


def request_of(text: str, **cluster: Any) -> dict[str, Any]:
    """The only request after the fix."""
    (request,) = fixed_document(RULE, text, **cluster)["spec"]["devices"]["requests"]
    exactly: dict[str, Any] = request["exactly"]
    return exactly


@pytest.mark.parametrize("class_name", ["mig.nvidia.com", "gpu.nvidia.com"])
def test_profile_becomes_a_whole_gpu_with_its_memory(class_name: str) -> None:
    text = claim(f'{PROFILE} && {NVIDIA}.architecture == "Ampere"', class_name=class_name)
    (match,) = matches_of(RULE, text, fleet="a100-40gb")
    assert match.message.startswith("no node of the cluster has MIG devices, so a MIG device of profile")
    exactly = request_of(text, fleet="a100-40gb")
    assert exactly["deviceClassName"] == "gpu.nvidia.com"
    assert exactly["selectors"][0]["cel"]["expression"] == f'{LARGE} && {NVIDIA}.architecture == "Ampere"'


def test_any_mig_device_becomes_any_gpu() -> None:
    assert request_of(claim("", class_name="mig.nvidia.com"), fleet="t4") == {"deviceClassName": "gpu.nvidia.com"}


def test_there_is_no_fix_without_a_large_gpu_or_with_other_conditions_on_mig_devices() -> None:
    large = claim(f'{NVIDIA}.profile == "3g.40gb"', class_name="mig.nvidia.com")
    other = claim(f'{PROFILE} && {NVIDIA}.parentUUID != ""', class_name="mig.nvidia.com")
    assert [match.fix for match in matches_of(RULE, large, fleet="t4")] == [None]
    assert [finding.fix for finding in check(bundle_of(large, fleet="t4"))] == [None]
    assert [match.fix for match in matches_of(RULE, other, fleet="t4")] == [None]


def test_nothing_is_reported_with_mig_devices_or_without_a_cluster() -> None:
    for text in (claim(PROFILE, class_name="mig.nvidia.com"), POD):
        assert not matches_of(RULE, text)
        assert not matches_of(RULE, text, fleet="a100-40gb/dynamic-mig")
        assert not matches_of(RULE, text, fleet="mi300x")
    assert not matches_of(RULE, claim(f'{NVIDIA}.architecture == "Ampere"'), fleet="t4")


def test_resource_of_the_device_plugin_becomes_a_claim() -> None:
    bundle = bundle_of(POD, fleet="2xt4", cluster=NAMESPACE)
    findings = check(bundle)
    assert [(finding.code, finding.level) for finding in findings] == [("V315", "error")]
    text = fix(bundle, unsafe=True).texts["file.yaml"]
    pod, template = (document.tree for document in load_text(text).documents)
    assert pod["spec"]["containers"][0]["resources"] == {"claims": [{"name": "gpu"}]}
    (request,) = template["spec"]["spec"]["devices"]["requests"]
    assert request["exactly"]["count"] == 2
    assert request["exactly"]["selectors"] == [{"cel": {"expression": LARGE}}]


def test_hardware_alone_has_no_resources_of_device_plugins() -> None:
    assert [level for level, _ in levels_and_messages(RULE, POD, fleet="t4")] == ["warning"]
    assert [finding.code for finding in check(bundle_of(POD, fleet="t4"))] == ["V315"]


def test_the_fix_fits_and_is_preferred_to_one_that_loses_the_profile() -> None:
    text = claim(PROFILE, class_name="mig.nvidia.com")
    fixed = fix(bundle_of(text, fleet="a100-40gb"), unsafe=True)
    assert not fixed.remaining
    assert 'memory.compareTo(quantity(\\"10G\\")) >= 0' in fixed.texts["file.yaml"]
