"""Python returns the data that a command prints with ``-o json``, for every command that prints JSON."""

from __future__ import annotations

import argparse
import io
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import allotment
from allotment.cli.main import command_line, main
from allotment.model.serialization import to_json
from tests.api.json_rows import FILES, LIVE, Row, live_rows, without, write_files
from tests.docs.screens import ROOT
from tests.polling import wait_until

#: Commands with JSON for which the row is in another test, because they need more than files or a cluster.
ELSEWHERE = {"driver verify": "tests/lab/test_driver_verify.py"}
_LARGE = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "large"},
    "spec": {"containers": [{"name": "main", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "8"}}}]},
}

Printed = Callable[[Row], object]


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Printed:
    """The JSON that a command prints, or writes to a file, in a folder with the files of the rows."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    for name in ("HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    write_files(tmp_path)

    def run(row: Row) -> object:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
        option = row.option.replace("FILE", "written.json")
        code = main([*row.words.split(), *option.split()])
        out, err = capsys.readouterr()
        assert code in (0, 1), f"{out}{err}"
        return json.loads(Path("written.json").read_text() if "FILE" in row.option else out)

    return run


def check_equal(row: Row, printed: Printed) -> None:
    returned = json.loads(to_json(row.value()))  # before the command, which may change files
    found = without(printed(row), row.changing)
    if isinstance(found, dict) and "next" in found:
        # `allot check` repeats its arguments, with the format.
        found["next"] = found["next"].replace(f" {row.option}", "")
    assert found == without(returned, row.changing)


@pytest.mark.parametrize("row", FILES, ids=lambda row: f"{row.words} {row.option}".strip())
def test_python_returns_what_the_command_prints(row: Row, printed: Printed) -> None:
    check_equal(row, printed)


@pytest.fixture(scope="module")
def lab() -> Iterator[allotment.Lab]:
    """A lab with a pod that requests more GPUs than there are."""
    with allotment.Lab(fleet="t4-4x-pcie", speed=50) as lab:
        lab.apply(_LARGE)
        wait_until(lambda: lab.get("pod", "large").get("status", {}).get("conditions"))
        yield lab


@pytest.mark.parametrize("words", LIVE)
def test_python_returns_what_the_command_prints_about_a_running_cluster(
    words: str, lab: allotment.Lab, printed: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(lab.kubeconfig))
    check_equal(live_rows(lab)[words], printed)


def test_a_lab_in_this_process_is_a_cluster(lab: allotment.Lab) -> None:
    found = allotment.explain(cluster=allotment.Cluster.lab(lab))
    assert [answer.name for answer in found.answers] == ["default/large"]
    assert not found.fits


@pytest.mark.parametrize(
    ("words", "call"),
    [
        ("explain -f broken.yaml", lambda: allotment.explain("broken.yaml")),
        ("check app.yaml --select X", lambda: allotment.check("app.yaml", select="X")),
        ("explain -f app.yaml --fleet t44", lambda: allotment.explain("app.yaml", allotment.Cluster.fleet("t44"))),
        ("doctor --list --select X", lambda: allotment.reference.checks(select="X")),
    ],
)
def test_an_error_is_what_the_command_prints(
    words: str, call: Callable[[], object], printed: Printed, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words.split(), "-o", "json"]) == 2
    data = json.loads(capsys.readouterr().out)
    with pytest.raises(allotment.InputError) as raised:
        call()
    # The command names an option where Python names an argument, and may add a command that helps.
    argument = raised.value.argument
    expected = raised.value.to_dict()
    if argument:
        for problem in expected["problems"]:
            problem["message"] = problem["message"].replace(f"{argument}: ", f"--{argument.replace('_', '-')}: ", 1)
    assert data["problems"] == expected["problems"]


def test_every_command_that_prints_json_has_a_row() -> None:
    commands = [row.words for row in FILES] + list(LIVE) + list(ELSEWHERE)
    found = list(_with_json(command_line(), ""))
    assert {"check", "driver verify", "get"} <= set(found)
    assert [name for name in found if not any(_is_of(words, name) for words in commands)] == []


def test_every_command_that_prints_json_is_in_the_table_of_the_documentation() -> None:
    text = (ROOT / "docs" / "api" / "index.md").read_text()
    assert [name for name in _with_json(command_line(), "") if f"`allot {name}`" not in text] == []


def _is_of(words: str, name: str) -> bool:
    return f"{words} ".startswith(f"{name} ")


def _with_json(parser: argparse.ArgumentParser, name: str) -> Iterator[str]:
    """Yield the commands that have an option for JSON as output, or print only JSON."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, command in action.choices.items():
                yield from _with_json(command, f"{name} {word}".strip())
        elif "--output" in action.option_strings and ("json" in (action.choices or ()) or action.choices is None):
            yield name
