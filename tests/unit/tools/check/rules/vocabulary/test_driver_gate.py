"""V309: parameters that need a disabled driver feature gate."""

from __future__ import annotations

from allotment.tools.check.rules.vocabulary import driver_gate, driver_parameters
from tests.unit.tools.check.rules.vocabulary.rule_results import levels_and_messages, matches_of

RULE = driver_gate.RULE


def test_message_and_help() -> None:
    (match,) = matches_of(RULE, RULE.bad)
    assert match.message == (
        "TimeSlicing needs feature gate TimeSlicingSettings of gpu.nvidia.com, which is disabled by default: the "
        "driver rejects the claim, and its pods stay in ContainerCreating"
    )
    assert match.path[-2:] == ("sharing", "strategy")
    assert "featureGates.TimeSlicingSettings=true" in match.help
    assert levels_and_messages(driver_parameters.RULE, RULE.bad) == []


def test_enabled_gate_is_not_reported() -> None:
    gates = {"gpu.nvidia.com": {"TimeSlicingSettings": True}}
    assert levels_and_messages(RULE, RULE.bad, driver_gates=gates) == []
    off = {"gpu.nvidia.com": {"TimeSlicingSettings": False}}
    assert "which is disabled:" in levels_and_messages(RULE, RULE.bad, driver_gates=off)[0][1]


def test_drivers_without_gates() -> None:
    assert levels_and_messages(RULE, driver_parameters.RULE.good) == []
