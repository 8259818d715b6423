import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.drivers.driver import ClaimError
from allotment.drivers.nvidia.config import (
    ALL_ON,
    INTERVALS,
    FeatureGates,
    GpuConfig,
    MigDeviceConfig,
    VfioDeviceConfig,
    mebibytes,
    memory_limits,
)
from allotment.fleet.profiles import MIB
from allotment.model.quantity import Quantity
from tests.unit.drivers.nvidia.nodes import config, mps

GPU_A = "GPU-00000000-0000-0000-0000-00000000000a"
GPU_B = "GPU-00000000-0000-0000-0000-00000000000b"


def refusal(kind: str, gates: FeatureGates = ALL_ON, **fields: object) -> str:
    with pytest.raises(ClaimError) as caught:
        config(kind, gates, **fields)
    assert caught.value.permanent == (gates == ALL_ON), "an administrator can turn a gate on"
    return str(caught.value)


def test_sharing_is_optional() -> None:
    assert config("GpuConfig") == GpuConfig()
    assert config("MigDeviceConfig") == MigDeviceConfig()
    assert config("VfioDeviceConfig") == VfioDeviceConfig()


@pytest.mark.parametrize("interval", INTERVALS)
def test_every_interval_is_accepted(interval: str) -> None:
    sharing = {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": interval}}
    assert config("GpuConfig", sharing=sharing).sharing.time_slicing_config.interval == interval


def test_an_unknown_interval_is_rejected_with_the_valid_ones() -> None:
    text = refusal("GpuConfig", sharing={"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "long"}})
    assert '"Long"' in text
    assert text.startswith("sharing.timeSlicingConfig.interval")


def test_time_slicing_without_an_interval_means_default() -> None:
    empty = config("GpuConfig", sharing={"strategy": "TimeSlicing", "timeSlicingConfig": {}})
    assert empty.sharing.time_slicing_config.interval == "Default"
    assert config("GpuConfig", sharing={"strategy": "TimeSlicing"}).sharing.time_slicing_config is None


@pytest.mark.parametrize("threads", [0, 33, 100])
def test_thread_percentages(threads: int) -> None:
    assert mps(defaultActiveThreadPercentage=threads).sharing.mps_config.default_active_thread_percentage == threads


@pytest.mark.parametrize("threads", [-1, 101])
def test_thread_percentages_out_of_range_are_rejected(threads: int) -> None:
    sharing = {"strategy": "MPS", "mpsConfig": {"defaultActiveThreadPercentage": threads}}
    assert "expected 0 to 100 (percent)" in refusal("GpuConfig", sharing=sharing)


@pytest.mark.parametrize(
    ("written", "limit"), [("5Gi", 5120), ("10Gi", 10240), ("1Mi", 1), ("1.5Mi", 1), ("1G", 953), (1048576, 1)]
)
def test_a_memory_limit_is_whole_mebibytes(written: str | int, limit: int) -> None:
    value = mps(defaultPinnedDeviceMemoryLimit=written).sharing.mps_config.default_pinned_device_memory_limit
    assert mebibytes(value, "limit") == limit


@pytest.mark.parametrize("written", ["0", "1Ki", "1048575", "-5Gi"])
def test_a_memory_limit_below_one_mebibyte_is_rejected(written: str) -> None:
    for field in ({"defaultPinnedDeviceMemoryLimit": written}, {"defaultPerDevicePinnedMemoryLimit": {"0": written}}):
        assert "expected at least 1Mi" in refusal("GpuConfig", sharing={"strategy": "MPS", "mpsConfig": field})


@given(st.integers(MIB, 1 << 50))
def test_a_memory_limit_never_exceeds_the_requested_memory(amount: int) -> None:
    assert 0 <= amount - mebibytes(Quantity.of_int(amount), "limit") * MIB < MIB


@pytest.mark.parametrize("key", ["GPU-1", "gpu-0", "-1", "00", "0x0", ""])
def test_a_per_device_limit_names_an_index_or_a_uuid(key: str) -> None:
    sharing = {"strategy": "MPS", "mpsConfig": {"defaultPerDevicePinnedMemoryLimit": {key: "1Gi"}}}
    assert "expected a device's UUID" in refusal("GpuConfig", sharing=sharing)


def test_per_device_limits_use_sorted_uuids_and_override_the_default() -> None:
    assert memory_limits((GPU_B, GPU_A), 1024, {"0": 10}) == {GPU_A: 10, GPU_B: 1024}
    assert memory_limits((GPU_B, GPU_A), None, {GPU_B: 20}) == {GPU_B: 20}
    assert memory_limits((GPU_A,), None, {}) == {}


@pytest.mark.parametrize("key", ["2", GPU_A.replace("a", "c")])
def test_a_limit_for_a_device_that_is_not_in_the_claim_is_rejected(key: str) -> None:
    with pytest.raises(ClaimError, match="the claim has no such device") as caught:
        memory_limits((GPU_A, GPU_B), None, {key: 10})
    assert f"0 ({GPU_A}), 1 ({GPU_B})" in str(caught.value)


def test_a_strategy_rejects_the_settings_of_the_other() -> None:
    both: dict[str, dict[str, str]] = {"timeSlicingConfig": {}, "mpsConfig": {}}
    assert "timeSlicingConfig: not allowed with strategy MPS" in refusal(
        "GpuConfig", sharing={"strategy": "MPS", **both}
    )
    text = refusal("GpuConfig", sharing={"strategy": "TimeSlicing", **both})
    assert "mpsConfig: not allowed with strategy TimeSlicing" in text
    assert "mpsConfig" in refusal("MigDeviceConfig", sharing={"strategy": "TimeSlicing", "mpsConfig": {}})


def test_mig_devices_accept_time_slicing_without_settings() -> None:
    assert config("MigDeviceConfig", sharing={"strategy": "TimeSlicing"}).sharing.strategy == "TimeSlicing"
    text = refusal("MigDeviceConfig", sharing={"strategy": "TimeSlicing", "timeSlicingConfig": {}})
    assert "unknown field" in text


def test_an_unknown_strategy_is_rejected() -> None:
    assert '"MPS", "TimeSlicing"' in refusal("GpuConfig", sharing={"strategy": "SpacePartitioning"})
    assert "strategy: expected" in refusal("GpuConfig", sharing={})


@pytest.mark.parametrize(
    ("gates", "strategy", "gate"),
    [
        (FeatureGates(time_slicing_settings=False), "TimeSlicing", "TimeSlicingSettings"),
        (FeatureGates(mps_support=False), "MPS", "MPSSupport"),
    ],
)
def test_a_disabled_strategy_is_explained(gates: FeatureGates, strategy: str, gate: str) -> None:
    for kind in ("GpuConfig", "MigDeviceConfig"):
        text = refusal(kind, gates, sharing={"strategy": strategy})
        assert f"feature gate {gate}, which is off by default" in text
        assert f"featureGates.{gate}=true" in text


def test_parameters_for_virtual_machines() -> None:
    iommu = config("VfioDeviceConfig", iommu={"backendPolicy": "PreferIommuFD", "enableAPIDevice": True}).iommu
    assert (iommu.backend_policy, iommu.enable_api_device) == ("PreferIommuFD", True)
    assert config("VfioDeviceConfig", iommu={}).iommu.backend_policy == "LegacyOnly"
    assert "backendPolicy" in refusal("VfioDeviceConfig", iommu={"backendPolicy": "Fast"})


def test_unknown_fields_are_rejected_with_a_suggestion() -> None:
    text = refusal("GpuConfig", sharing={"strategy": "MPS", "mpsConfig": {"defaultActiveThreadPercent": 10}})
    assert 'did you mean "defaultActiveThreadPercentage"?' in text
