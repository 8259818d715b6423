"""M418: classes that select none of the given devices."""

from __future__ import annotations

from allotment.tools.check.rules.meaning import class_selects_nothing
from tests.unit.tools.check.rules.meaning.manifests import claim, gpu_request, levels_and_paths, matches_of

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


def test_reports_the_nearest_miss() -> None:
    assert levels_and_paths(RULE, LARGE, fleet="t4") == [("warning", "DeviceClass spec.selectors")]
    (match,) = matches_of(RULE, LARGE, fleet="t4")
    assert "does not select the cluster's only device: " in match.message
    assert "15Gi" in match.help
    assert levels_and_paths(RULE, LARGE, fleet="a100-40gb") == []


def test_not_reported_without_devices() -> None:
    assert levels_and_paths(RULE, LARGE) == []


def test_requested_class_is_left_to_the_simulation() -> None:
    assert levels_and_paths(RULE, LARGE, claim(gpu_request(deviceClassName="large")), fleet="t4") == []


def test_mistakes_in_names_are_left_to_other_rules() -> None:
    assert levels_and_paths(RULE, device_class('device.driver == "nvidia.com"'), fleet="t4") == []
