"""The demo: every packaged example does what its header says, in lines that fit a terminal."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from allotment.cli.demo import live, offline
from allotment.cli.demo.apply import tool, words_of
from allotment.reference.packaged_examples import Example, packaged_examples
from tests.unit.cli.conftest import Allot, Ran

# --- in a lab --------------------------------------------------------------------------------------------------------


@pytest.fixture
def no_kubectl(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No kubectl on the PATH."""
    monkeypatch.setenv("PATH", str(tmp_path))


def _some() -> tuple[Example, ...]:
    """The four examples that are planned, two that stay pending, and one that is rejected."""
    every = packaged_examples()
    return (*every[:4], every[9], every[15], every[18])


@pytest.mark.usefixtures("no_kubectl")
def test_without_kubectl_examples_have_the_expected_result_in_a_lab(
    allot: Allot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(live, "packaged_examples", _some)
    ran = allot("demo")
    assert ran.code == 0, ran.out
    assert ran.err == ""
    lines = ran.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert "\x1b" not in ran.out
    table = lines[lines.index(next(line for line in lines if line.startswith("    PODS"))) + 1 :]
    assert table[0].split(maxsplit=3) == ["1", "chat", "a100", "gpu-0 (NVIDIA A100-SXM4-40GB)"]
    assert table[3].split()[:5] == ["4", "classifier", "×7", "a100-mig", "gpu-0-mig-1g5gb-19-0…6"]
    waiting, refused = _parts(ran)
    assert 'Did you mean "gpu.amd.com/parentDeviceID"?' in waiting
    assert 'ResourceClaimTemplate "mig-1g-5gb" does not exist in namespace demo (template-missing)' in waiting
    assert 'no matches for kind "ResourceClaim" in version "resource.k8s.io/v1alpha3"' in refused
    assert "applied with allot apply in" in ran.out
    assert "4 running, 2 pending, 1 rejected; all as intended." in lines
    fixed = ran.out.partition("Fixed by allot check --fix --unsafe-fixes, and applied again:")[2]
    assert "V303 renamed-name" in fixed
    assert "does not run" not in fixed
    planned = ran.out.partition("Cheapest machines for an empty cluster")[2]
    assert "aws/g5.xlarge 1.01, lambda/gpu_1x_a6000 1.09," in planned
    assert "lambda/gpu_1x_a100_sxm4 1.99, gcp/a2-highgpu-1g 3.67," in planned
    assert "classifier ×7     a2-highgpu-1g   gpu-0-mig-1g5gb-19-0…6" in planned


def test_the_readme_shows_that_all_examples_have_the_expected_result() -> None:
    """`tests.docs.test_screens` compares the output in README.md with the demo's."""
    readme = (Path(__file__).parents[4] / "README.md").read_text(encoding="utf-8")
    for line in (
        "8 running, 7 pending, 5 rejected; all as intended.",
        "After the fixes, all 12 others run.",
        "In the lab without nodes, 4 of 4 run on exactly the planned machines.",
    ):
        assert f"\n{line}\n" in readme


def _parts(ran: Ran) -> tuple[str, str]:
    """The output for pending examples and for rejected ones, each on one line."""
    _, _, rest = ran.out.partition("Pending, and why")
    waiting, _, refused = rest.partition("Rejected by the API server:")
    return " ".join(waiting.split()), " ".join(refused.split())


@pytest.mark.usefixtures("no_kubectl")
def test_an_unexpected_result_fails_the_demo(allot: Allot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "packaged_examples", _surprising)
    ran = allot("demo")
    assert ran.code == 1
    assert "not as intended: 01-one-ampere-gpu: fits; expected devices-in-use" in ran.out


def _surprising() -> tuple[Example, ...]:
    true = packaged_examples()[0]
    return (Example(true.name, true.title, true.story, "devices-in-use", true.text, true.path),)


@pytest.mark.parametrize(
    ("says", "name"),
    [
        ('echo \'{"clientVersion": {"gitVersion": "v1.35.2"}}\'', "kubectl v1.35.2"),
        ('echo \'{"clientVersion": {"gitVersion": "v1.29.0"}}\'', "allot apply"),
        ("echo no such thing >&2; exit 1", "allot apply"),
    ],
)
def test_a_recent_kubectl_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, says: str, name: str) -> None:
    program = tmp_path / "kubectl"
    program.write_text(f"#!/bin/sh\n{says}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    assert tool(tmp_path / "config", tmp_path).name == name


INVALID = """\
The DeviceClass "x" is invalid: spec.selectors[0].cel.expression: Invalid value: "a >= b": compilation failed: ERROR: \
<input>:1:3: found no matching overload for '_>=_'
 | a >= b
 | ..^
"""
STRICT = """\
Warning: resource.k8s.io/v1beta1 is deprecated
Error from server (BadRequest): the object cannot be handled: strict decoding error: unknown field "spec.x"
"""


def test_a_recent_kubectl_is_preferred_to_an_old_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for folder, version in (("old", "v1.32.4-dispatcher"), ("new", "v1.36.0")):
        program = tmp_path / folder / "kubectl"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\necho \'{{"clientVersion": {{"gitVersion": "{version}"}}}}\'\n')
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/old:{tmp_path}/new:/usr/bin:/bin")
    assert tool(tmp_path / "config", tmp_path).name == "kubectl v1.36.0"


@pytest.mark.parametrize(
    ("errors", "words"),
    [
        (INVALID, "found no matching overload for '_>=_'"),
        (STRICT, 'unknown field "spec.x"'),
        ('resource mapping not found for name: "a": no matches for kind "B"', 'no matches for kind "B"'),
        ("", "refused"),
    ],
)
def test_error_shows_the_cause(errors: str, words: str) -> None:
    assert words_of(errors) == words


def test_without_lab_dependencies_examples_are_explained_offline(allot: Allot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httptools", None)
    ran = allot("demo")
    assert ran.code == 0
    assert ran.out.startswith(
        "Explained without a lab: running a lab requires httptools: pip install 'allotment[lab]'\n"
    )
    assert ran.out.endswith("all as intended.\n")


# --- explained -------------------------------------------------------------------------------------------------------


def test_all_examples_have_the_expected_result_when_explained(allot: Allot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    ran = allot("demo", "--offline")
    assert ran.code == 0, ran.out
    lines = ran.out.splitlines()
    assert max(map(len, lines)) <= 88  # a long word, which may be pasted, is left whole
    assert sum(len(line) > 80 for line in lines) <= 2
    assert lines[-1].endswith("all as intended.")
    assert all(example.title in ran.out for example in packaged_examples())
    assert "chat-0 on a100: gpu-0 (NVIDIA A100-SXM4-40GB)" in ran.out
    assert "gpu-0-mig-1g5gb-19-0…6" in ran.out
    assert 'Did you mean "gpu.amd.com/parentDeviceID"?' in " ".join(ran.out.split())


def test_one_example_is_shown_completely(allot: Allot) -> None:
    ran = allot("demo", "10")
    assert ran.code == 0
    assert "Pod default/pipeline does not fit" in ran.out
    assert ran.out.endswith("Kubernetes says: cannot allocate all claims\n")


def test_unexpected_example_result_is_reported(allot: Allot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offline, "packaged_examples", _surprising)
    ran = allot("demo", "--offline")
    assert ran.code == 1
    assert "not as intended: 01-one-ampere-gpu gives fits, expected devices-in-use" in ran.out
