"""Remedies that are tried: the engine's answer is what ``explain`` found."""

from __future__ import annotations

from dataclasses import replace

import pytest

from allotment.api.clusters.source import ClusterOrigin
from allotment.engine.refusal import SuggestedChange
from allotment.errors import InputError
from allotment.explanation.pending_run import is_applicable
from allotment.screens.manifest_diff import manifest_diff
from allotment.screens.pending import pending, pending_detail
from allotment.screens.remedies import changes_of
from allotment.screens.try_change import TryRequest, try_change
from tests.unit.screens.clusters import WORLDS, fleet, pod, request, template, view, world


@pytest.mark.parametrize("name", WORLDS)
def test_every_remedy_that_changes_an_object_makes_the_pod_fit(name: str) -> None:
    cluster = world(name)
    for group in pending(cluster).groups:
        detail = pending_detail(cluster, group.id)
        for remedy, changes in zip(detail.remedies, changes_of(detail.answer), strict=True):
            assert remedy.is_tryable == is_applicable(changes)
            assert remedy.is_tryable or not all(change.object for change in changes)
            if remedy.is_tryable:
                trial = try_change(cluster, TryRequest(group=group.id, remedy=remedy.id))
                assert trial.fits, trial.sentence
                # The members of a gang are placed together, so that one of them may be on the node of another.
                assert detail.answer.group or trial.node in ("", remedy.node) or not remedy.node


@pytest.mark.parametrize("name", ["not-enough-capacity", "unknown-attribute", "class-missing"])
def test_the_diff_is_that_of_the_manifest(name: str) -> None:
    cluster = world(name)
    (group,) = pending(cluster).groups
    trial = try_change(cluster, TryRequest(pod=group.first))
    lines = [line for line in trial.diff.splitlines() if line.startswith(("+", "-")) and line[:3] not in ("+++", "---")]
    assert lines
    assert {line[0] for line in lines} == {"+", "-"}


def test_the_diff_of_an_expression_shows_its_lines() -> None:
    written = template(spec=request(1))
    cluster = view(*fleet("t4-4x-pcie"), written)
    path = "spec.spec.devices.requests[0].exactly.deviceClassName"
    becomes = "  a.b ==\t1 && \n  c.d"
    name = f"ResourceClaimTemplate {written.key}"
    diff = manifest_diff(cluster, [SuggestedChange(text="", object=name, path=path, becomes=becomes)])
    added = [line[1:].strip() for line in diff.splitlines() if line.startswith("+") and line[:3] != "+++"]
    assert added == ["deviceClassName: |2-", "a.b ==        1 &&", "c.d"]


def test_the_command_for_a_change_names_the_cluster_of_the_page() -> None:
    """For a snapshot, kubectl would change the cluster of its current context, which the page does not show."""
    snapshot = world("class-missing")
    (group,) = pending(snapshot).groups
    live = replace(snapshot, place="cluster", origin=ClusterOrigin("cluster", context="prod"))
    for cluster, options in ((snapshot, ""), (live, " --context prod")):
        (remedy,) = pending_detail(cluster, group.id).remedies[:1]
        trial = try_change(cluster, TryRequest(group=group.id))
        assert trial.change_command == remedy.change_command
        assert trial.command.startswith("allot explain pod/trainer -n ml")
        if options:
            shown, _, changed = trial.change_command.partition(" | ")
            assert shown.startswith(f"allot explain pod/trainer -n ml{options}")
            assert changed == f"kubectl{options} replace --force -f -"
        else:
            assert trial.change_command == ""


def test_a_trial_of_waiting_says_which_claims_it_releases() -> None:
    used = [each for number in range(4) for each in pod(f"job-{number}", f"gpu-{number}", node="t4-4x-pcie-1")]
    origin = ClusterOrigin("cluster", context="prod")
    cluster = replace(view(*fleet("t4-4x-pcie"), template(), *used, *pod("a")), origin=origin)
    (group,) = pending(cluster).groups
    assert try_change(cluster, TryRequest(group=group.id)).assumed == ("claim ml/job-0-gpu-x1 is released",)
    (remedy,) = pending_detail(cluster, group.id).remedies[:1]
    assert (remedy.command, remedy.change_command) == ("kubectl --context prod get pod job-0 -n ml", "")


def test_a_trial_leaves_the_cluster_as_it_was() -> None:
    used = [each for number in range(4) for each in pod(f"job-{number}", f"gpu-{number}", node="t4-4x-pcie-1")]
    cluster = view(*fleet("t4-4x-pcie"), template(), *used, *pod("a"))
    (group,) = pending(cluster).groups
    before = pending_detail(cluster, group.id).to_dict()
    first = try_change(cluster, TryRequest(group=group.id))
    assert first.fits
    assert try_change(cluster, TryRequest(group=group.id)) == first
    assert pending_detail(cluster, group.id).to_dict() == before


def test_a_change_is_tried_at_the_turn_of_the_pod() -> None:
    """Pods that come first keep their devices, although a change of the class would help them, too."""
    late = "2026-02-01T00:00:00Z"
    big = request(5)
    objects = (
        *fleet("t4-4x-pcie"),
        template(),
        template("big", big),
        *pod("a"),
        *pod("b", of="big", spec=big, created=late),
    )
    cluster = view(*objects)
    group = pending(cluster).groups[0]
    trial = try_change(cluster, TryRequest(group=group.id))
    assert trial.fits
    assert [device.device for claim in trial.claims for device in claim.devices] == ["gpu-1", "gpu-2", "gpu-3"]


def test_what_cannot_be_tried_is_an_error() -> None:
    cluster = world("pool-incomplete")
    (group,) = pending(cluster).groups
    with pytest.raises(InputError, match="cannot be tried"):
        try_change(cluster, TryRequest(group=group.id))
    with pytest.raises(InputError, match="has no remedy 7"):
        try_change(cluster, TryRequest(group=group.id, remedy=7))
    with pytest.raises(InputError, match="no longer pending"):
        try_change(cluster, TryRequest(pod="ml/unknown"))


def test_a_text_without_an_object_is_not_applicable() -> None:
    assert not is_applicable((SuggestedChange("wait for the driver", remedy="driver"),))
