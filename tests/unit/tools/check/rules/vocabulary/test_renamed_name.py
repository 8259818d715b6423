"""V303: names of other releases, their replacements, and the names that a cluster has."""

from __future__ import annotations

from allotment.tools.check.rules.vocabulary import renamed_name
from tests.unit.tools.check.rules.vocabulary.rule_results import (
    NVIDIA,
    claim,
    fixed_document,
    fixed_expressions,
    levels_and_messages,
    matches_of,
    selector_messages,
)

RULE = renamed_name.RULE

TWO_PARTS = claim(
    "", class_name="gpu.amd.com", devices_extra="    constraints:\n    - matchAttribute: gpu.amd.com/{name}\n"
)  # fmt: skip


def test_fix_uses_the_new_name_and_domain() -> None:
    assert selector_messages(RULE, f'{NVIDIA}.pcieBusID == "0000:07:00.0"') == [
        (
            "warning",
            (
                'gpu.nvidia.com has not published "pcieBusID" since release 25.12: '
                "it is now resource.kubernetes.io/pciBusID"
            ),
        )
    ]
    assert fixed_expressions(RULE, f'{NVIDIA}.pcieBusID == "0000:07:00.0"') == [
        'device.attributes["resource.kubernetes.io"].pciBusID == "0000:07:00.0"'
    ]


def test_help_shows_how_to_support_both_releases() -> None:
    match = matches_of(RULE, claim(f'{NVIDIA}.pcieBusID == "0000:07:00.0"'))[0]
    assert '"pcieBusID" in device.attributes["gpu.nvidia.com"]' in match.help


def test_no_fix_if_the_type_changed() -> None:
    expression = f"{NVIDIA}.index == 0"
    assert len(selector_messages(RULE, expression)) == 1
    assert fixed_expressions(RULE, expression) == [expression]


def test_old_name_is_valid_for_an_old_release() -> None:
    assert selector_messages(RULE, f'{NVIDIA}.pcieBusID == "0000:07:00.0"', drivers={"gpu.nvidia.com": "25.8"}) == []


def test_constraint_on_a_redefined_name() -> None:
    text = TWO_PARTS.format(name="deviceID")
    (level, message), *others = levels_and_messages(RULE, text)
    assert (level, others) == ("warning", [])
    assert message.startswith('"deviceID" of gpu.amd.com has had a different meaning since release 1.0')
    constraint = fixed_document(RULE, text)["spec"]["devices"]["constraints"][0]
    assert constraint == {"matchAttribute": "resource.kubernetes.io/pciBusID"}


def test_slices_of_an_old_driver() -> None:
    # Partitions have parentDeviceID there, and GPUs deviceID.
    text = TWO_PARTS.format(name="deviceID")
    constraint = fixed_document(RULE, text, fleet="mi300x-8x-oam/cpx@v0")["spec"]["devices"]["constraints"][0]
    assert constraint == {"matchAttribute": "gpu.amd.com/parentDeviceID"}
    assert levels_and_messages(RULE, TWO_PARTS.format(name="parentDeviceID"), fleet="mi300x-8x-oam/cpx@v0") == []
    assert levels_and_messages(RULE, text, fleet="mi300x-8x-oam/spx@v0") == []


def test_slices_of_a_new_driver() -> None:
    for name in ("deviceID", "parentDeviceID"):
        constraint = fixed_document(RULE, TWO_PARTS.format(name=name), fleet="mi300x-8x-oam/cpx")["spec"]["devices"]
        assert constraint["constraints"][0] == {"matchAttribute": "resource.kubernetes.io/pciBusID"}


def test_new_meaning_in_a_selector_is_not_reported() -> None:
    device = 'device.attributes["gpu.amd.com"].deviceID'
    assert selector_messages(RULE, f'{device} == "0x74a1"', class_name="gpu.amd.com") == []
    assert len(selector_messages(RULE, f'{device} == "8462659767828489944"', class_name="gpu.amd.com")) == 1


def test_only_devices_of_the_requests_count() -> None:
    mixed = "mi300x-8x-oam,old=mi300x-8x-oam/cpx@v0,a100-40gb"  # two releases, and another vendor's standard names
    partitions = claim(
        'device.attributes["gpu.amd.com"].type == "amdgpu-partition"',
        class_name="gpu.amd.com",
        devices_extra="    constraints:\n    - matchAttribute: gpu.amd.com/deviceID\n",
    )
    matches = matches_of(RULE, partitions, fleet=mixed)
    assert [match.fix.text for match in matches if match.fix] == ["set matchAttribute: gpu.amd.com/parentDeviceID"]


def test_name_missing_in_the_cluster_is_an_error() -> None:
    assert selector_messages(RULE, f"{NVIDIA}.index == 0", fleet="t4") == [
        ("error", 'gpu.nvidia.com has not published "index" since release 25.8: uuid is the closest replacement')
    ]
    assert [
        level for level, _ in selector_messages(RULE, f"{NVIDIA}.index == 0 || {NVIDIA}.type == 'gpu'", fleet="t4")
    ] == ["warning"]


def test_name_without_fix_is_reported_once() -> None:
    assert len(selector_messages(RULE, f"{NVIDIA}.index == 0 || {NVIDIA}.index == 2")) == 1
    assert len(selector_messages(RULE, f'{NVIDIA}.pcieBusID == "a" || {NVIDIA}.pcieBusID == "b"')) == 2
