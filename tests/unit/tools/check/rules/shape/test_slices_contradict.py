"""S115: slices of one pool that contradict each other."""

from __future__ import annotations

from allotment.tools.check.rules.shape import slices_contradict
from tests.unit.tools.check.rules.shape.rule_results import levels_and_messages, matches_of

RULE = slices_contradict.RULE


def a_slice(name: str, count: int, device: str) -> str:
    return f"""\
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {{name: {name}}}
spec:
  driver: gpu.example.com
  nodeName: worker-1
  pool: {{name: worker-1, generation: 1, resourceSliceCount: {count}}}
  devices: [{{name: {device}}}]
"""


def test_both_places_are_reported() -> None:
    (match,) = matches_of(RULE, a_slice("a", 2, "gpu-0") + a_slice("b", 2, "gpu-0"))
    assert match.path == ("spec", "devices", 0, "name")
    assert match.message == "pool gpu.example.com/worker-1: device gpu-0 is also in ResourceSlice a"
    assert match.help == "the other is at file.yaml:9:20"


def test_different_counts() -> None:
    (match,) = matches_of(RULE, a_slice("a", 2, "gpu-0") + a_slice("b", 3, "gpu-1"))
    assert match.path == ("spec", "pool", "resourceSliceCount")


def test_consistent_slices() -> None:
    assert matches_of(RULE, a_slice("a", 2, "gpu-0") + a_slice("b", 2, "gpu-1")) == []


def test_slices_of_different_folders_are_independent() -> None:
    first, second = RULE.bad.split("---\n")
    assert levels_and_messages(RULE, {"a/a.yaml": first, "b/b.yaml": second}) == []
    assert [level for level, _ in levels_and_messages(RULE, {"a/a.yaml": first, "a/b.yaml": second})] == ["warning"]
