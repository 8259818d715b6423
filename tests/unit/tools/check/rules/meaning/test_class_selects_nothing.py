"""Classes that no given device belongs to."""

from __future__ import annotations

from allotment.tools.check.rules.meaning import class_selects_nothing
from tests.unit.tools.check.rules.meaning.manifests import gpu_request, claim, matches_of, levels_and_paths

RULE = class_selects_nothing.RULE


def device_class(expression: str) -> str:
    """A class with one selector."""
    return f"""\
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {{name: large}}
spec:
  selectors:
  - cel: {{expression: '{expression}'}}
"""


LARGE = device_class(
    'device.driver == "gpu.nvidia.com" && device.capacity["gpu.nvidia.com"].memory.isGreaterThan(quantity("30Gi"))'
)


def test_the_nearest_miss_is_told() -> None:
    assert levels_and_paths(RULE, LARGE, fleet="t4") == [("warning", "DeviceClass spec.selectors")]
    (one,) = matches_of(RULE, LARGE, fleet="t4")
    assert "does not select the cluster's only device: " in one.message
    assert "15Gi" in one.help
    assert levels_and_paths(RULE, LARGE, fleet="a100-40gb") == []


def test_without_devices_nothing_can_be_said() -> None:
    assert levels_and_paths(RULE, LARGE) == []


def test_of_a_class_in_use_the_proof_tells() -> None:
    assert levels_and_paths(RULE, LARGE, claim(gpu_request(deviceClassName="large")), fleet="t4") == []


def test_mistakes_in_names_are_other_rules() -> None:
    assert levels_and_paths(RULE, device_class('device.driver == "nvidia.com"'), fleet="t4") == []
