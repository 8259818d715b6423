"""Labels of nodes that describe devices, as conditions on devices."""

from __future__ import annotations

import pytest

from allotment.explanation.stated_hardware import lost_hardware, stated_hardware
from allotment.model.core import Pod, PodSpec
from allotment.model.trees import Tree, to_value

MEMORY = 'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("{}")) {} 0'


def pod(*expressions: Tree, **labels: str) -> Pod:
    term = {"nodeSelectorTerms": [{"matchExpressions": list(expressions)}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}}
    spec = {"containers": [], "nodeSelector": labels, **({"affinity": affinity} if expressions else {})}
    return Pod(spec=to_value(spec, PodSpec))


@pytest.mark.parametrize(
    ("label", "value", "condition"),
    [
        (
            "nvidia.com/gpu.product",
            "NVIDIA-A100-SXM4-80GB",
            'device.attributes["gpu.nvidia.com"].productName == "NVIDIA A100-SXM4-80GB"',
        ),
        ("nvidia.com/gpu.family", "ampere", 'device.attributes["gpu.nvidia.com"].architecture == "Ampere"'),
        ("nvidia.com/gpu.memory", "81920", MEMORY.format("81920Mi", ">=")),
    ],
)
def test_a_label_in_a_node_selector_is_a_condition(label: str, value: str, condition: str) -> None:
    (stated,) = stated_hardware(pod(**{label: value}))
    assert stated.condition == condition
    assert stated.label == f"{label}={value}"


def test_the_least_of_several_amounts_suffices() -> None:
    (stated,) = stated_hardware(pod({"key": "nvidia.com/gpu.memory", "operator": "In", "values": ["81920", "40960"]}))
    assert stated.condition == MEMORY.format("40960Mi", ">=")


def test_more_than_an_amount() -> None:
    (stated,) = stated_hardware(pod({"key": "nvidia.com/gpu.memory", "operator": "Gt", "values": ["79000"]}))
    assert stated.condition == MEMORY.format("79000Mi", ">")


@pytest.mark.parametrize(
    ("key", "operator", "values"),
    [
        ("nvidia.com/gpu.product", "NotIn", ["Tesla-T4"]),
        ("nvidia.com/gpu.product", "In", ["a-card-that-nobody-sells"]),
        ("nvidia.com/gpu.memory", "Lt", ["40000"]),
        ("nvidia.com/gpu.memory", "In", ["80Gi"]),
    ],
)
def test_a_rule_whose_meaning_is_not_known_has_no_condition(key: str, operator: str, values: list[str]) -> None:
    (stated,) = stated_hardware(pod({"key": key, "operator": operator, "values": values}))
    assert stated.condition == ""


def test_other_labels_describe_no_devices() -> None:
    assert stated_hardware(pod(**{"topology.kubernetes.io/zone": "a", "nvidia.com/gpu.present": "true"})) == ()


def test_hardware_is_lost_with_the_rule_that_states_it() -> None:
    before = pod(**{"nvidia.com/gpu.memory": "81920", "disk": "nvme"})
    assert lost_hardware(before, pod(**{"nvidia.com/gpu.memory": "81920"})) == ()
    assert [lost.key for lost in lost_hardware(before, pod(disk="nvme"))] == ["nvidia.com/gpu.memory"]
