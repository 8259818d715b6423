"""The outcome of an example's pods in a lab: of a finished Job, and of pods with a temporary pending reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from allotment.cli.demo import example_runs
from allotment.cli.demo.allocations import Allocations
from allotment.cli.demo.apply import tool
from allotment.cli.demo.example_runs import Outcome, Trial, applied, decide, devices_in
from allotment.lab.lab import Lab
from allotment.model.loading import load_text
from allotment.model.trees import Tree
from allotment.reference.packaged_examples import find_example
from tests.polling import wait_until


def test_a_job_that_has_ended_still_shows_its_devices(tmp_path: Path) -> None:
    with Lab("a100-80gb=4xa100-80gb", speed=1000) as lab:
        allocations = Allocations(lab)
        trial = applied(lab, tool(lab.kubeconfig, tmp_path), find_example("training-job"))
        (space,) = trial.spaces
        wait_until(
            lambda: (
                [pod["status"]["phase"] for pod in lab.list("pods", namespace=space)] == ["Succeeded"]
                and not lab.list("resourceclaims", namespace=space)
            ),
            "the Job ends, and its claim is deleted",
        )
        decide(lab, trial, allocations, devices_in(lab))
    (group,) = trial.outcome.groups
    assert trial.outcome.runs
    assert (group.workload, group.node, group.given) == ("finetune", "a100-80gb", [["gpu-0"]])
    assert list(group.kinds) == ["NVIDIA A100-SXM4-80GB"]


def test_temporary_pending_reason_is_not_an_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    example = find_example("1")
    template, *rest = [document.tree for document in load_text(example.text).documents]
    trial = Trial(Outcome(example), {"default"}, {"chat": 1})
    read, seen = example_runs.message_of, list[str]()

    def message_of(lab: Lab, pod: Tree) -> str:
        """The template is created after its absence was reported."""
        message = read(lab, pod)
        if message and not seen:
            lab.apply(template)
            seen.append(message)
        return message

    monkeypatch.setattr(example_runs, "message_of", message_of)
    with Lab("a100=dgx-a100-40gb", speed=50) as lab:
        lab.apply(rest)
        wait_until(lambda: lab.list("events", fields="reason=FailedScheduling"), "the pod reports a reason")
        decide(lab, trial, Allocations(lab), devices_in(lab))
    assert "(template-missing)" in seen[0]
    assert trial.outcome.runs
    assert trial.outcome.as_intended
