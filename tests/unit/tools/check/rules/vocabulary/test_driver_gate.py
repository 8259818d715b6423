"""Parameters for which the driver needs a gate that is off."""

from __future__ import annotations

from allotment.tools.check.rules.vocabulary import driver_gate, driver_parameters
from tests.unit.tools.check.rules.vocabulary.requests import matches_of, levels_and_messages

RULE = driver_gate.RULE


def test_the_gate_and_what_comes_of_it_are_told() -> None:
    (found,) = matches_of(RULE, RULE.bad)
    assert found.message == (
        "TimeSlicing needs feature gate TimeSlicingSettings of gpu.nvidia.com, which is off by default: the driver "
        "then refuses the claim, and its pods stay in ContainerCreating"
    )
    assert found.path[-2:] == ("sharing", "strategy")
    assert "featureGates.TimeSlicingSettings=true" in found.help
    assert levels_and_messages(driver_parameters.RULE, RULE.bad) == []


def test_a_gate_that_is_on_is_nothing_to_tell() -> None:
    gates = {"gpu.nvidia.com": {"TimeSlicingSettings": True}}
    assert levels_and_messages(RULE, RULE.bad, driver_gates=gates) == []
    off = {"gpu.nvidia.com": {"TimeSlicingSettings": False}}
    assert "which is off:" in levels_and_messages(RULE, RULE.bad, driver_gates=off)[0][1]


def test_drivers_without_gates_take_them() -> None:
    assert levels_and_messages(RULE, driver_parameters.RULE.good) == []
