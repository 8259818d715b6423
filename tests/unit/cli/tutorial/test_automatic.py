"""The steps without a reader: a check that does not hold ends them, with the reason."""

from __future__ import annotations

import contextlib
import io

from allotment.cli.tutorial import automatic
from allotment.cli.tutorial.folder import packaged
from allotment.cli.tutorial.step import Command, Step
from tests.unit.cli.tutorial.conftest import Tutorial, step


def _failed(tutorial: Tutorial, step: Step) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        assert not automatic.go_through(tutorial.session(out), [step], timeout=0)
    assert tutorial.folder.progress.done == []
    return " ".join(out.getvalue().split())


def test_the_likely_mistake_is_the_reason(tutorial: Tutorial) -> None:
    tutorial.lab.apply(packaged("trainer.yaml"))
    tutorial.lab.wait("pod/trainer", until="phase=Running")
    text = _failed(
        tutorial,
        Step(name="a", title="A", text="B", commands=(Command("allot rule S102"),), check=step("request").check),
    )
    assert "Failed: Pod trainer runs without a device" in text


def test_a_pending_pod_is_explained(tutorial: Tutorial) -> None:
    tutorial.lab.apply(packaged("finetune.yaml"))
    tutorial.lab.wait("pod/finetune", until=lambda pod: bool((pod.get("status") or {}).get("conditions")))
    text = _failed(
        tutorial,
        Step(name="a", title="A", text="B", commands=(Command("allot rule S102"),), check=step("explain").check),
    )
    assert "Pod default/finetune does not fit" in text
    assert "Failed: pod finetune is pending" in text


def test_no_result_in_time_is_a_failure(tutorial: Tutorial) -> None:
    nothing = Step(name="a", title="A", text="B", commands=(), check=step("request").check)
    assert "Failed: the step has no result after 0 s" in _failed(tutorial, nothing)
