"""Requests for what is required: classes and conditions, for all known hardware and for given hardware."""

from __future__ import annotations

import pytest

from allotment.fleet import cluster_of, parse_fleet
from allotment.tools.claims.alternatives import Alternative, alternatives
from allotment.tools.claims.request import ClaimError, LackingDevices, Requirements, parse_memory, parse_share
from allotment.tools.claims.supply import Supply, known_supply, supply_of


def fleet(*specs: str) -> Supply:
    cluster = cluster_of(parse_fleet(specs))
    return supply_of(cluster.slices, cluster.classes)


def expressions(alternative: Alternative) -> list[str]:
    return [condition.expression for condition in alternative.conditions]


def only(required: Requirements, supply: Supply | None = None) -> Alternative:
    (alternative,) = alternatives(required, supply or known_supply())
    return alternative


def test_a_size_matches_cards_that_publish_less() -> None:
    for text in ("80GB", "80Gi", "81920Mi"):
        found = only(Requirements(memory=parse_memory(text)))
        assert found.class_name == "gpu.nvidia.com"
        assert expressions(found) == ['device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("79Gi")) >= 0']


def test_other_amounts_are_exact() -> None:
    assert '"20000Mi"' in expressions(only(Requirements(memory=parse_memory("20000Mi"))))[0]


@pytest.mark.parametrize(
    ("model", "test"),
    [
        ("H100", '.contains("H100")'),
        ("h100", '.contains("H100")'),
        ("A10", r'.matches(r"\bA10\b")'),  # not A100 or A10G
        ("L40", r'.matches(r"\bL40\b")'),  # not L40S
        ("H200", r'.matches(r"\bH200\b")'),  # not GH200
        ("H100 NVL", r'.matches(r"\bH100\b.*\bNVL\b")'),
        ("MI300X", '.contains("MI300X")'),
    ],
)
def test_a_model_does_not_match_others(model: str, test: str) -> None:
    found = only(Requirements(model=model))
    assert next(e for e in expressions(found) if "productName" in e).endswith(test)
    assert all(set(model.lower().split()) <= kind.words for kind in found.kinds)


def test_given_hardware_is_named_exactly() -> None:
    found = only(Requirements(model="A100"), fleet("dgx-a100-40gb"))
    assert expressions(found) == ['device.attributes["gpu.nvidia.com"].productName == "NVIDIA A100-SXM4-40GB"']


def test_any_vendor_is_one_alternative_for_each() -> None:
    required = Requirements(vendor="any", memory=parse_memory("24GB"))
    assert [a.class_name for a in alternatives(required, known_supply())] == ["gpu.nvidia.com", "gpu.amd.com"]
    # Every DeviceClass of firstAvailable must exist, so drivers that the hardware lacks are left out.
    assert [a.vendor for a in alternatives(required, fleet("l4"))] == ["nvidia"]
    assert [a.vendor for a in alternatives(required, fleet("t4", "mi300x"))] == ["amd"]


def test_a_whole_amd_gpu_is_not_a_partition() -> None:
    assert expressions(only(Requirements(vendor="amd"))) == ['device.attributes["gpu.amd.com"].type == "amdgpu"']


def test_a_partition_mode_reads_only_published_attributes() -> None:
    required = Requirements(part="partition", profile="cpx")
    assert "computePartition" in expressions(only(required))[1]
    assert "computePartition" not in expressions(only(required, fleet("mi300x/cpx")))[1]
    assert "partitionProfile" not in expressions(only(required, fleet("mi300x/auto")))[1]


def test_a_size_of_mig_device_is_the_smallest_profile_of_each_model() -> None:
    required = Requirements(part="mig", memory=parse_memory("10GB"))
    assert {kind.profile for kind in only(required).kinds} >= {"1g.10gb", "2g.12gb", "1g.18gb"}
    found = only(required, fleet("a100-80gb/dynamic-mig"))
    assert expressions(found) == ['device.attributes["gpu.nvidia.com"].profile == "1g.10gb"']


def test_a_fraction_is_rounded_down_so_that_all_parts_fit() -> None:
    found = only(Requirements(share=parse_share("1/3")), fleet("a10/shared"))
    assert found.capacity == "7676Mi"  # of 23028Mi
    assert "device.allowMultipleAllocations" in expressions(found)


def test_a_class_of_an_unknown_driver_takes_no_conditions() -> None:
    assert only(Requirements(class_name="fast-gpu")).conditions == ()
    with pytest.raises(ClaimError, match="its driver is unknown"):
        only(Requirements(class_name="fast-gpu", model="A100"))
    guarded = expressions(only(Requirements(class_name="fast-gpu", model="A100", vendor="nvidia")))
    assert guarded[0] == 'device.driver == "gpu.nvidia.com"'


@pytest.mark.parametrize(
    ("required", "specs", "problem", "hint"),
    [
        (Requirements(memory=parse_memory("80GB")), ["8xa100-40gb"], "no GPU with 80 GB or more", "has 40 GB"),
        (Requirements(model="A1000"), [], "no NVIDIA GPU of model A1000", "did you mean A100?"),
        (Requirements(model="H100"), ["t4"], "no GPU of model H100", "it has Tesla T4"),
        (Requirements(part="mig", profile="1g.7gb"), [], "no MIG device of profile 1g.7gb", "did you mean"),
        (Requirements(part="partition"), ["mi300x"], "no GPU partition", "AMD Instinct MI300X OAM"),
        (Requirements(share=parse_share("10Gi")), ["h100"], "that several claims can share", "consumableShares"),
    ],
)
def test_reason_for_refusal(required: Requirements, specs: list[str], problem: str, hint: str) -> None:
    with pytest.raises(ClaimError) as caught:
        alternatives(required, fleet(*specs) if specs else known_supply())
    assert problem in str(caught.value)
    assert hint in caught.value.hint
    assert isinstance(caught.value, LackingDevices) == bool(specs)


@pytest.mark.parametrize("text", ["80", "much", "0GB", "-1GB", ""])
def test_memory_that_is_no_amount(text: str) -> None:
    with pytest.raises(ClaimError, match="memory: expected"):
        parse_memory(text)


def test_a_share_of_more_than_a_device() -> None:
    with pytest.raises(ClaimError, match="less than a whole device"):
        parse_share("3/2")


def test_an_existing_class_serves_whole_gpus() -> None:
    found = only(Requirements(vendor="amd", extended=True), fleet("mi300x/auto"))
    assert found.extended == "amd.com/gpu"  # of class gpu.amd.com-spx
    assert only(Requirements(vendor="amd", extended=True), fleet("mi300x")).extended == ""
