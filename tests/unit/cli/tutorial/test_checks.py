"""The checks hold only for the objects that a step requires, and name the likely mistake otherwise."""

from __future__ import annotations

from msgspec.structs import replace

from allotment.cli.tutorial.checks import DeviceRequirement, any_gpu, is_pending, nothing_left, runs, share_one_device
from allotment.cli.tutorial.lab_objects import LabObjects
from allotment.cli.tutorial.step import Met, Unmet
from allotment.model.core import Pod
from allotment.model.resource import ResourceClaim
from allotment.model.trees import to_value

HAS_GPU = runs("a", DeviceRequirement("a GPU", any_gpu), "it is free")


def pod(name: str = "a", phase: str = "Pending", message: str = "") -> Pod:
    """A pod; with a message, one that the scheduler could not place."""
    refused = [{"type": "PodScheduled", "status": "False", "message": message}] if message else []
    metadata = {"name": name, "namespace": "default", "labels": {"app": "web"}}
    return to_value({"metadata": metadata, "status": {"phase": phase, "conditions": refused}}, Pod)


def test_a_pod_that_is_starting_or_missing_has_no_hint() -> None:
    assert HAS_GPU(LabObjects()) == Unmet()
    assert HAS_GPU(LabObjects((pod(),))) == Unmet()


def test_a_pod_that_is_being_deleted_does_not_count() -> None:
    running = pod(phase="Running")
    leaving = replace(running, metadata=replace(running.metadata, deletion_timestamp="2026-01-01T00:00:00Z"))
    assert HAS_GPU(LabObjects((leaving,))) == Unmet()
    assert nothing_left(LabObjects((leaving,))) == Unmet()


def test_each_refusal_of_a_pod_is_reported() -> None:
    first, second = (HAS_GPU(LabObjects((pod(message=message),))) for message in ("no device", "no node"))
    assert isinstance(first, Unmet)
    assert first.pending == "a"
    assert first != second


def test_a_refused_pod_of_a_deployment_is_reported() -> None:
    found = share_one_device("web", 2, "they share")(LabObjects((pod("b", "Running"), pod(message="no device"))))
    assert isinstance(found, Unmet)
    assert found.pending == "a"


def test_a_deployment_without_a_claim_is_reported() -> None:
    found = share_one_device("web", 2, "they share")(LabObjects((pod("a", "Running"), pod("b", "Running"))))
    assert isinstance(found, Unmet)
    assert found.hint.startswith("The pods run without a device: the Deployment has no claim.")


def test_a_pod_that_runs_instead_of_pending_does_not_block_the_tutorial() -> None:
    check = is_pending("a", "no device fits")
    assert check(LabObjects((pod(),))) == Unmet()
    assert check(LabObjects((pod(message="no device"),))) == Met("Pod a is pending: no device fits.")
    assert isinstance(check(LabObjects((pod(phase="Running"),))), Met)


def test_a_claim_without_pods_is_reported() -> None:
    claim = to_value({"metadata": {"name": "shared", "namespace": "default"}}, ResourceClaim)
    found = nothing_left(LabObjects((), (claim,)))
    assert isinstance(found, Unmet)
    assert "Delete it with allot delete resourceclaim shared." in found.hint
    assert isinstance(nothing_left(LabObjects()), Met)
