"""The demo: every packaged example does what its header says, in lines that fit a terminal."""

from __future__ import annotations

import pytest

from allotment.cli import demo
from allotment.cli.examples import Example, examples
from tests.unit.cli.conftest import Allot


def test_all_examples_come_out_as_intended(allot: Allot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    ran = allot("demo")
    assert ran.code == 0, ran.out
    lines = ran.out.splitlines()
    assert max(map(len, lines)) <= 88  # a long word, which may be pasted, is left whole
    assert sum(len(line) > 80 for line in lines) <= 2
    assert lines[-1].endswith("all as intended.")
    assert all(example.title in ran.out for example in examples())
    assert "chat-0 on a100: gpu-0 (NVIDIA A100-SXM4-40GB)" in ran.out
    assert "gpu-0-mig-1g5gb-19-0…6" in ran.out
    assert 'Did you mean "gpu.amd.com/parentDeviceID"?' in " ".join(ran.out.split())


def test_one_example_in_full(allot: Allot) -> None:
    ran = allot("demo", "10")
    assert ran.code == 0
    assert "Pod default/pipeline does not fit" in ran.out
    assert ran.out.endswith("Kubernetes says: cannot allocate all claims\n")


def test_an_example_that_surprises_fails_the_demo(allot: Allot, monkeypatch: pytest.MonkeyPatch) -> None:
    true = examples()[0]
    wrong = Example(true.name, true.title, true.story, "devices-in-use", true.text, true.path)
    monkeypatch.setattr(demo, "examples", lambda: (wrong,))
    ran = allot("demo")
    assert ran.code == 1
    assert "not as intended: 01-one-ampere-gpu gives fits, its header says devices-in-use" in ran.out
