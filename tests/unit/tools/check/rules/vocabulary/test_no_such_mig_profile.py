"""V307: MIG profiles that no GPU has, or that the selected GPU does not have."""

from __future__ import annotations

import pytest

from allotment.tools.check.rules.vocabulary import no_such_mig_profile
from tests.unit.tools.check.rules.vocabulary.rule_results import NVIDIA, fixed_expressions, selector_messages

RULE = no_such_mig_profile.RULE
A100 = f'{NVIDIA}.productName == "NVIDIA A100-SXM4-40GB"'


def profile(name: str) -> str:
    """The condition for a profile."""
    return f'{NVIDIA}.profile == "{name}"'


def test_profile_of_another_product() -> None:
    assert selector_messages(RULE, f"{A100} && {profile('3g.40gb')}", class_name="mig.nvidia.com") == [
        (
            "warning",
            (
                'NVIDIA A100-SXM4-40GB has no MIG profile "3g.40gb": '
                'the profile with the same number of slices is "3g.20gb"'
            ),
        )
    ]
    assert fixed_expressions(RULE, f"{A100} && {profile('3g.40gb')}", class_name="mig.nvidia.com") == [
        f"{A100} && {profile('3g.20gb')}"
    ]


def test_profile_of_another_architecture() -> None:
    hopper = f'{NVIDIA}.architecture == "Hopper"'
    assert selector_messages(RULE, f"{hopper} && {profile('1g.10gb')}", class_name="mig.nvidia.com") == []
    ((level, message),) = selector_messages(RULE, f"{hopper} && {profile('1g.5gb')}", class_name="mig.nvidia.com")
    assert level == "warning"
    assert message.startswith("NVIDIA H100 80GB HBM3 or NVIDIA H200") or "have no MIG profile" in message


@pytest.mark.parametrize("name", ["1g.5gb", "1g.5gb+me", "3g.40gb", "7g.141gb", "3g.47gb", "1g.24gb-me"])
def test_existing_profiles(name: str) -> None:
    assert selector_messages(RULE, profile(name), class_name="mig.nvidia.com") == []


@pytest.mark.parametrize(
    ("written", "expected"),
    [("1g5gb", "1g.5gb"), ("1G.5GB", "1g.5gb"), ("mig-1g.10gb", "1g.10gb"), ("7g.75gb", "7g.80gb"), ("half", "half")],
)
def test_suggested_profile(written: str, expected: str) -> None:
    assert len(selector_messages(RULE, profile(written), class_name="mig.nvidia.com")) == 1
    assert fixed_expressions(RULE, profile(written), class_name="mig.nvidia.com") == [profile(expected)]


def test_gpus_of_the_cluster_take_precedence() -> None:
    fleet = "a100-40gb/dynamic-mig"
    assert selector_messages(RULE, profile("3g.20gb"), class_name="mig.nvidia.com", fleet=fleet) == []
    assert selector_messages(RULE, profile("3g.40gb"), class_name="mig.nvidia.com", fleet=fleet) == [
        (
            "error",
            (
                'the GPUs of the cluster have no MIG profile "3g.40gb": '
                'the profile with the same number of slices is "3g.20gb"'
            ),
        )
    ]
    # The GPUs could be partitioned so: whether they are is left to the simulation.
    assert selector_messages(RULE, profile("3g.20gb"), class_name="mig.nvidia.com", fleet="a100-40gb") == []
    # V301 reports clusters without any MIG-capable GPU.
    assert selector_messages(RULE, profile("3g.20gb"), class_name="mig.nvidia.com", fleet="4xt4") == []
