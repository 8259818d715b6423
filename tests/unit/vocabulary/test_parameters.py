"""Driver parameters are checked with the driver's own decoder and messages."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.drivers.driver import ClaimError
from allotment.drivers.example.driver import ExampleGpus, ExampleNics
from allotment.drivers.nvidia.config import ALL_ON, CONFIGS, validate
from allotment.drivers.preparation.configuration import decode
from allotment.vocabulary import vocabulary
from allotment.vocabulary.parameters import kinds_of, parameter_problems

NVIDIA = "resource.nvidia.com/v1beta1"
ON = {"MPSSupport": True, "TimeSlicingSettings": True, "PassthroughSupport": True, "VFIOPassthrough": True}


def nvidia(kind: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": NVIDIA, "kind": kind, **fields}


def test_parameters_of_unknown_drivers_are_not_checked() -> None:
    assert parameter_problems("gpu.somebody.example", {"anything": 1}) == ()
    assert parameter_problems("tpu.google.com", {"anything": 1}) == ()
    assert kinds_of("gpu.somebody.example") is None


def test_a_driver_without_parameters_rejects_them() -> None:
    (problem,) = parameter_problems("cpu.example.com", {"apiVersion": "v1", "kind": "CpuConfig"})
    assert (
        str(problem) == 'kind: unknown kind "CpuConfig" of "v1"; supported: none, because this driver has no parameters'
    )


@pytest.mark.parametrize(
    ("strategy", "gate"), [("MPS", "MPSSupport"), ("TimeSlicing", "TimeSlicingSettings")], ids=["mps", "time-slicing"]
)
def test_sharing_requires_a_gate_that_is_off_by_default(strategy: str, gate: str) -> None:
    tree = nvidia("GpuConfig", sharing={"strategy": strategy})
    (problem,) = parameter_problems("gpu.nvidia.com", tree)
    assert (problem.gate, problem.path) == (gate, ("sharing", "strategy"))
    assert f"featureGates.{gate}=true" in problem.text
    assert parameter_problems("gpu.nvidia.com", tree, {gate: True}) == ()


def test_releases_without_gates_support_sharing() -> None:
    assert parameter_problems("gpu.nvidia.com", nvidia("GpuConfig", sharing={"strategy": "MPS"}), release="25.3") == ()


@pytest.mark.parametrize(
    ("driver", "gate", "tree"),
    [
        ("gpu.nvidia.com", "PassthroughSupport", nvidia("VfioDeviceConfig")),
        ("gpu.amd.com", "VFIOPassthrough", {"apiVersion": "gpu.resource.amd.com/v1alpha1", "kind": "VfioDeviceConfig"}),
    ],
    ids=["nvidia", "amd"],
)
def test_parameters_of_gated_device_types_require_the_gate(driver: str, gate: str, tree: dict[str, Any]) -> None:
    (problem,) = parameter_problems(driver, tree)
    assert (problem.gate, problem.path) == (gate, ("kind",))
    assert parameter_problems(driver, tree, ON) == ()


def test_a_misspelt_field_is_reported_with_path_and_suggestion() -> None:
    tree = nvidia("GpuConfig", sharing={"strategy": "MPS", "mpsConfg": {}})
    (problem,) = parameter_problems("gpu.nvidia.com", tree, ON)
    assert (problem.path, problem.near, problem.key) == (("sharing", "mpsConfg"), "mpsConfig", True)
    assert str(problem) == 'sharing.mpsConfg: unknown field of GpuSharing; did you mean "mpsConfig"?'


def test_a_misspelt_value_is_reported_with_a_suggestion() -> None:
    (problem,) = parameter_problems("gpu.nvidia.com", nvidia("GpuConfig", sharing={"strategy": "mps"}))
    assert (problem.path, problem.near, problem.key) == (("sharing", "strategy"), "MPS", False)


def test_all_errors_are_reported_together() -> None:
    limits = {"defaultPerDevicePinnedMemoryLimit": {"gpu-0": "5Gi", "0": "1"}, "defaultActiveThreadPercentage": 101}
    tree = nvidia("GpuConfig", sharing={"strategy": "MPS", "timeSlicingConfig": {}, "mpsConfig": limits})
    paths = [problem.path for problem in parameter_problems("gpu.nvidia.com", tree)]
    mps = ("sharing", "mpsConfig")
    assert paths == [
        ("sharing", "strategy"),
        ("sharing", "timeSlicingConfig"),
        (*mps, "defaultActiveThreadPercentage"),
        (*mps, "defaultPerDevicePinnedMemoryLimit", "gpu-0"),
        (*mps, "defaultPerDevicePinnedMemoryLimit", "0"),
    ]


@pytest.mark.parametrize(
    ("tree", "path", "since"),
    [
        (nvidia("VfioDeviceConfig", iommu={"backendPolicy": "LegacyOnly"}), ("iommu",), "0.4"),
        (
            nvidia("GpuConfig", sharing={"strategy": "MPS", "mpsConfig": {"multiUser": True}}),
            ("sharing", "mpsConfig", "multiUser"),
            "0.5-dev",
        ),
    ],
    ids=["iommu", "multiUser"],
)
def test_fields_of_later_releases_are_reported(tree: dict[str, Any], path: tuple[str, ...], since: str) -> None:
    (problem,) = parameter_problems("gpu.nvidia.com", tree, ON, "25.12")
    assert problem.path == path
    assert since in problem.text
    assert parameter_problems("gpu.nvidia.com", tree, ON, since) == ()


def test_kinds_of_later_releases_are_unknown() -> None:
    (problem,) = parameter_problems("gpu.nvidia.com", nvidia("VfioDeviceConfig"), ON, "25.8")
    assert problem.path == ("kind",)


def test_a_compute_domain_requires_a_name() -> None:
    (problem,) = parameter_problems("compute-domain.nvidia.com", nvidia("ComputeDomainDaemonConfig", domainID=""))
    assert str(problem) == "domainID: expected the uid of a ComputeDomain, found none"


@pytest.mark.parametrize(
    ("driver", "tree", "text"),
    [
        (
            "gpu.example.com",
            {"kind": "GpuConfig", "sharing": {"strategy": "TimeSlicing", "spacePartitioningConfig": {}}},
            "sharing.spacePartitioningConfig: not allowed with strategy TimeSlicing",
        ),
        (
            "gpu.example.com",
            {
                "kind": "GpuConfig",
                "sharing": {"strategy": "SpacePartitioning", "spacePartitioningConfig": {"partitionCount": -1}},
            },
            "sharing.spacePartitioningConfig.partitionCount: expected a number >= 0, found -1",
        ),
        (
            "net.example.com",
            {"kind": "NetConfig", "bwBurst": {"egressBurst": -1}},
            "bwBurst.egressBurst: expected a number >= 0",
        ),
    ],
    ids=["other strategy", "negative", "burst"],
)
def test_the_example_drivers_parameters(driver: str, tree: dict[str, Any], text: str) -> None:
    group = driver.replace(".example", ".resource.example")
    (problem,) = parameter_problems(driver, {"apiVersion": f"{group}/v1alpha1", **tree})
    assert str(problem).startswith(text)


@pytest.mark.parametrize("driver", ["gpu.nvidia.com", "compute-domain.nvidia.com", "gpu.amd.com", "gpu.example.com"])
def test_the_vocabulary_lists_the_decodable_kinds(driver: str) -> None:
    words, kinds = vocabulary(driver), kinds_of(driver)
    assert words is not None
    assert kinds is not None
    assert set(words.configs) == {f"{version}/{kind}" for version, kind in kinds}
    types = {type_.name for type_ in words.types}
    assert all(types.issuperset(suited) for suited in words.configs.values())


NAMES = ("sharing", "strategy", "mpsConfig", "timeSlicingConfig", "interval", "iommu", "defaultActiveThreadPercentage")
VALUES = st.sampled_from(["MPS", "TimeSlicing", "Long", "mps", "5Gi", -1, 50, True, None])
TREES = st.recursive(
    VALUES, lambda inner: st.dictionaries(st.sampled_from(NAMES), inner, max_size=3) | st.lists(inner, max_size=2)
)


@given(st.sampled_from(["GpuConfig", "MigDeviceConfig", "VfioDeviceConfig", "Gpu"]), TREES)
def test_the_check_agrees_with_the_driver(kind: str, tree: Any) -> None:
    """With all gates on, the first problem of the check, or all decoding errors, equal the error of the driver."""
    given = nvidia(kind, **tree) if isinstance(tree, dict) else nvidia(kind, sharing=tree)
    problems = parameter_problems("gpu.nvidia.com", given, ON)
    try:
        validate(decode(given, CONFIGS), ALL_ON)
        refusal = ""
    except ClaimError as error:
        refusal = str(error)
    assert refusal in ("; ".join(map(str, problems)), *map(str, problems[:1]))
    assert bool(refusal) == bool(problems)


def test_the_example_drivers_decode_the_same_kinds() -> None:
    assert ExampleGpus("node").configs == kinds_of("gpu.example.com")
    assert ExampleNics("node").configs == kinds_of("net.example.com")
