"""V301: attributes that a driver does not publish, according to its vocabulary and to slices."""

from __future__ import annotations

from allotment.tools.check.rules.vocabulary import unknown_attribute
from tests.unit.tools.check.rules.vocabulary.rule_results import (
    NVIDIA,
    claim,
    fixed_expressions,
    matches_of,
    selector_messages,
)
from tests.unit.tools.check.rules.vocabulary.rule_results import claim as claim_of

RULE = unknown_attribute.RULE


def test_commonly_mistaken_name_is_replaced() -> None:
    assert selector_messages(RULE, f'{NVIDIA}.model == "NVIDIA L4"') == [
        ("warning", 'gpu.nvidia.com publishes no attribute "model": did you mean "productName"?')
    ]
    assert fixed_expressions(RULE, f'{NVIDIA}.model == "NVIDIA L4"') == [f'{NVIDIA}.productName == "NVIDIA L4"']
    assert fixed_expressions(RULE, f'{NVIDIA}["migProfile"] == "1g.5gb"', class_name="mig.nvidia.com") == [
        f'{NVIDIA}["profile"] == "1g.5gb"'
    ]


def test_misspelled_name_is_replaced() -> None:
    assert fixed_expressions(RULE, f'{NVIDIA}.productname == "NVIDIA L4"') == [f'{NVIDIA}.productName == "NVIDIA L4"']


def test_span_is_the_name() -> None:
    expression = f'true && {NVIDIA}.arch == "Hopper"'
    match = matches_of(RULE, claim_of(expression))[0]
    assert match.span is not None
    assert expression[slice(*match.span)] == "arch"


def test_standard_name_is_moved_to_its_domain() -> None:
    assert fixed_expressions(RULE, f'{NVIDIA}.pcieRoot == "pci0000:44"') == [
        'device.attributes["resource.kubernetes.io"].pcieRoot == "pci0000:44"'
    ]
    assert selector_messages(RULE, 'device.attributes["resource.kubernetes.io"].pcieRoot == "pci0000:44"') == []
    assert selector_messages(RULE, 'device.attributes["resource.kubernetes.io"].pcieroot == "pci0000:44"') == [
        ("warning", 'resource.kubernetes.io publishes no attribute "pcieroot": did you mean "pcieRoot"?')
    ]


def test_replacement_may_be_a_capacity() -> None:
    assert fixed_expressions(RULE, f'{NVIDIA}.vram.isGreaterThan(quantity("30Gi"))') == [
        'device.capacity["gpu.nvidia.com"].memory.isGreaterThan(quantity("30Gi"))'
    ]


def test_capacity_read_as_attribute_is_left_to_another_rule() -> None:
    assert selector_messages(RULE, f'{NVIDIA}.memory == quantity("30Gi")') == []


def test_condition_on_an_unpublished_name_is_kept() -> None:
    for expression in (f"{NVIDIA}.nvlink == true", f'{NVIDIA}.nvlink == true && {NVIDIA}.type == "gpu"'):
        (match,) = matches_of(RULE, claim_of(expression))
        assert match.fix is None
        assert match.help == "`allot vocabulary gpu.nvidia.com` lists the names that it publishes"


def test_label_of_nodes_is_read_as_what_it_describes() -> None:
    assert fixed_expressions(RULE, f'{NVIDIA}["gpu.memory"] >= 80000') == [
        'device.capacity["gpu.nvidia.com"].memory >= 80000'
    ]
    assert fixed_expressions(RULE, f'{NVIDIA}["gpu.product"] == "NVIDIA L4"') == [
        f'{NVIDIA}.productName == "NVIDIA L4"'
    ]


def test_optional_access_is_at_most_a_note() -> None:
    assert selector_messages(RULE, f'"nvlink" in {NVIDIA} && {NVIDIA}.type == "gpu"') == []
    assert selector_messages(RULE, f'{NVIDIA}.?nvlink.orValue(false) || {NVIDIA}.type == "gpu"') == []
    assert [level for level, _ in selector_messages(RULE, f'{NVIDIA}.?arch.orValue("") == "Hopper"')] == ["note"]


def test_unknown_drivers_may_publish_anything() -> None:
    assert selector_messages(RULE, 'device.attributes["gpu.vendor.example"].anything == 1') == []


def test_name_of_another_release() -> None:
    old = {"gpu.nvidia.com": "25.8"}
    assert selector_messages(RULE, f'{NVIDIA}.addressingMode == "HMM"', drivers=old) == [
        ("warning", 'gpu.nvidia.com 25.8 publishes no attribute "addressingMode": it was added in release 25.12')
    ]
    assert selector_messages(RULE, f'{NVIDIA}.pcieBusID == "0000:07:00.0"', drivers=old) == []
    assert selector_messages(RULE, f'{NVIDIA}.pcieBusID == "0000:07:00.0"') == []  # V303


def test_name_of_other_device_types() -> None:
    assert selector_messages(RULE, f'{NVIDIA}.profile == "1g.5gb"') == [
        (
            "warning",
            'attribute "profile" is published only on devices of type mig, but devices of type gpu are selected here',
        )
    ]
    assert selector_messages(RULE, f'{NVIDIA}.profile == "1g.5gb"', class_name="mig.nvidia.com") == []


def test_slices_are_the_complete_set_of_names() -> None:
    assert selector_messages(RULE, f"{NVIDIA}.nvlink == true", fleet="8xh100") == [
        ("error", 'no device in the cluster has attribute "nvlink" in gpu.nvidia.com')
    ]
    assert fixed_expressions(RULE, f'{NVIDIA}.model == "Tesla T4"', fleet="t4-4x-pcie") == [
        f'{NVIDIA}.productName == "Tesla T4"'
    ]
    # The other operand can be true.
    assert (
        selector_messages(RULE, f'{NVIDIA}.nvlink == true || {NVIDIA}.type == "gpu"', fleet="8xh100")[0][0] == "warning"
    )


def test_known_name_without_such_devices_in_the_cluster() -> None:
    message = 'no device in the cluster has attribute "parentUUID" in gpu.nvidia.com'
    assert selector_messages(RULE, f'{NVIDIA}.parentUUID == "GPU-1"', fleet="a100-40gb") == [
        ("error", f"{message}: only devices of type mig publish it")
    ]


def test_missing_mig_devices_are_left_to_another_rule() -> None:
    expression = f'{NVIDIA}.profile == "1g.5gb"'
    for class_name in ("mig.nvidia.com", "gpu.nvidia.com"):
        assert selector_messages(RULE, expression, class_name=class_name, fleet="a100-40gb") == []


def test_slices_add_unknown_names() -> None:
    cluster = """\
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: one}
spec:
  driver: gpu.nvidia.com
  nodeName: one
  pool: {name: one, generation: 1, resourceSliceCount: 1}
  devices:
  - name: gpu-0
    attributes:
      nvlink: {bool: true}
"""
    assert selector_messages(RULE, f"{NVIDIA}.nvlink == true", cluster=cluster) == []


def test_unknown_drivers_may_publish_standard_names() -> None:
    expression = 'device.attributes["resource.kubernetes.io"].pageSize == "4Ki"'
    assert selector_messages(RULE, expression, class_name="dra.memory") == [
        ("note", "no known driver publishes resource.kubernetes.io/pageSize")
    ]
    assert fixed_expressions(RULE, expression, class_name="dra.memory") == [expression]


def test_common_ending_is_not_similar() -> None:
    (match,) = matches_of(
        RULE, claim('device.attributes["gpu.amd.com"].targetGfxVersion == "x"', class_name="gpu.amd.com")
    )
    assert "did you mean" not in match.message
