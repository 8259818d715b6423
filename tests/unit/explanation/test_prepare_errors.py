"""What the kubelet's event says about devices that cannot be prepared."""

from __future__ import annotations

from allotment.explanation.prepare_errors import prepare_error

PREFIX = "Failed to prepare dynamic resources: prepare dynamic resources: "


def test_invalid_parameters_are_the_cause() -> None:
    cause = 'claim a/b: config[0] (of the device class): sharing.strategy: expected one of "MPS", found "Mps"'
    error = prepare_error(PREFIX + cause)
    assert error.cause == cause
    assert error.advice == "Correct the parameters in the device class's config; allot check names the field."


def test_missing_driver_is_the_cause() -> None:
    error = prepare_error("DRA driver gpu.example.com is not registered")
    assert error.advice.startswith("gpu.example.com is not registered with the kubelet")


def test_other_causes_are_in_the_log_of_the_driver() -> None:
    assert prepare_error(PREFIX + "out of memory").advice == "Check the driver's log on the node."
    assert prepare_error("").cause == "the kubelet's message is not available"
