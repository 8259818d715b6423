from __future__ import annotations

import pytest

from allotment.cdi.naming import QualifiedName, parse_name, qualified_name, transient_name


@pytest.mark.parametrize(
    "name", ["nvidia.com/gpu=all", "ab/c0=0", "k8s.gpu.nvidia.com/claim=7f0c-gpu-0", "example.com/net_x.y-z9=mig:1.2_3"]
)
def test_a_qualified_name_has_a_vendor_a_class_and_a_device(name: str) -> None:
    parsed = parse_name(name)
    assert parsed is not None
    assert qualified_name(f"{parsed.vendor}/{parsed.class_}", parsed.device) == name


@pytest.mark.parametrize(
    "name",
    [
        "", "gpu", "a/gpu=0", "nvidia.com/g=0", "/dev/nvidia0", "nvidia.com=0", "nvidia.com/=0", "/gpu=0",
        "nvidia.com/gpu=", "9a/gpu=0", "ab/9b=0", "a./bc=0", "ab/b-=0", "ab/bc=-0", "ab/bc=0-", "ab/bc=x y",
        "ab/bc/cd=0", f"ab/{'b' * 64}=0", "ab/bc=0\n",
    ],
)  # fmt: skip
def test_invalid_qualified_names(name: str) -> None:
    assert parse_name(name) is None


def test_a_device_name_may_contain_a_colon_inside_only() -> None:
    assert parse_name("ab/cd=e=f") is None
    assert parse_name("ab/cd=e:f") == QualifiedName("ab", "cd", "e:f")


def test_a_transient_name_contains_no_slash() -> None:
    assert transient_name("vendor.com/gpu", "pod/container") == "vendor.com-gpu_pod_container"
