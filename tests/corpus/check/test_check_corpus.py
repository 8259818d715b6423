"""The output of ``allot check`` for the packaged examples and the articles' manifests, as text and as JSON.

``examples/NAME.txt`` and ``.json`` are the output for a packaged example, and ``NAME.fixed.yaml`` is the example after
``--fix --unsafe-fixes``. For the articles' manifests, ``seeds/NAME.json`` contains the findings and none of the
manifests' text.

``ALLOTMENT_UPDATE_CORPUS=1`` regenerates these files; review the difference before you commit it.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from allotment.cli.main import main
from allotment.reference.packaged_examples import packaged_examples
from tests.unit.tools.check.test_seeds import SEEDS

HERE = Path(__file__).parent
UPDATE = bool(os.environ.get("ALLOTMENT_UPDATE_CORPUS"))
EXAMPLES = {example.name: example for example in packaged_examples()}
Check = Callable[..., str]


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Check:
    """Runs ``allot check`` in a folder of its own, and returns its output."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))  # without labs that run on this machine

    def run(*arguments: str) -> str:
        code = main(["check", "--isolated", *arguments])
        printed = capsys.readouterr()
        assert code in (0, 1), printed.err
        assert printed.err == ""
        return printed.out

    return run


def _compare(path: Path, text: str) -> None:
    if UPDATE:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")
    assert text == path.read_text("utf-8"), "review the difference; ALLOTMENT_UPDATE_CORPUS=1 updates the file"


@pytest.mark.parametrize("name", EXAMPLES)
def test_packaged_examples(name: str, check: Check, tmp_path: Path) -> None:
    file = f"{name}.yaml"
    (tmp_path / file).write_text(EXAMPLES[name].text, "utf-8")
    folder = HERE / "examples"
    _compare(folder / f"{name}.txt", check(file))
    _compare(folder / f"{name}.json", check(file, "-o", "json"))
    check(file, "--fix", "--unsafe-fixes")
    fixed = (tmp_path / file).read_text("utf-8")
    if fixed != EXAMPLES[name].text or (folder / f"{name}.fixed.yaml").exists():
        _compare(folder / f"{name}.fixed.yaml", fixed)


def _without_text(finding: dict[str, Any]) -> dict[str, Any]:
    """A finding without the text that its fix replaces."""
    if "fix" in finding:
        finding["fix"].pop("replacements", None)
    return finding


@pytest.mark.parametrize("name", SEEDS)
def test_manifests_of_the_articles(name: str, check: Check, tmp_path: Path, shared: Callable[[str], Path]) -> None:
    files = [f"{file}.yaml" for file in SEEDS[name].files]
    for file in files:
        shutil.copyfile(shared(f"manifests/{file}"), tmp_path / file)
    printed = json.loads(check(*files, "-o", "json"))
    printed["findings"] = [_without_text(finding) for finding in printed["findings"]]
    _compare(
        HERE / "seeds" / f"{name.replace(' ', '-')}.json", json.dumps(printed, indent=1, ensure_ascii=False) + "\n"
    )
