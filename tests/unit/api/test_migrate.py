"""``migrate``: decisions, texts and written files."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any, get_args

import pytest

import allotment
from allotment import Cluster, InputError
from allotment.api.migrate import MatchAttribute
from allotment.cli.arguments.migrate import MATCH_ATTRIBUTES, STRATEGIES
from allotment.cli.main import main
from allotment.tools.migrate.target import MigrationStrategy
from tests.unit.cli.migrate.test_migrate import GPU


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """``app.yaml`` in the current folder."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "app.yaml"
    file.write_text(GPU)
    return file


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ([], {}),
        (["--fleet", "t4-4x-pcie"], {"cluster": Cluster.fleet("t4-4x-pcie")}),
        (["--kube-version", "1.32"], {"cluster": Cluster(kube="1.32")}),
        (["--strategy", "class", "-n", "ml"], {"strategy": "class", "namespace": "ml"}),
    ],
)
@pytest.mark.usefixtures("app")
def test_the_command_prints_the_same(
    words: list[str], options: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["migrate", "app.yaml", *words, "-o", "json"])
    report = allotment.migrate("app.yaml", **options)
    assert report.to_dict() == json.loads(capsys.readouterr().out)
    assert report.fine is (code == 0)


def test_files_are_not_changed_by_default(app: Path) -> None:
    report = allotment.migrate(app)
    assert [workload.decision.outcome for workload in report.workloads] == ["template"]
    assert "resourceClaimTemplateName" in report.texts[str(app)]
    assert (report.written, app.read_text()) == ((), GPU)


def test_files_are_changed_in_place(app: Path) -> None:
    report = allotment.migrate(app, in_place=True)
    assert report.written == (str(app),)
    assert app.read_text() == report.texts[str(app)]


def test_all_sources_are_written_to_a_new_folder(app: Path, tmp_path: Path) -> None:
    text = GPU.replace("name: a", "name: b")
    allotment.migrate(app, text, GPU.replace("name: a", "name: c"), output_dir=tmp_path / "new")
    written = {path.name for path in (tmp_path / "new").iterdir()}
    assert {"app.yaml", "migrated.yaml", "2-migrated.yaml", "README.md"} <= written
    assert "name: b" in (tmp_path / "new" / "migrated.yaml").read_text()
    assert app.read_text() == GPU


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"strategy": "all"}, "strategy: expected one of auto, class, claims, found 'all'"),
        ({"match_attribute": "pci"}, "match_attribute: expected one of pcieRoot, numaNode, found 'pci'"),
        ({"shares": 1}, "shares: expected a number of pods >= 2, found 1"),
        ({"in_place": True}, "in_place: <text> is not a file"),
        ({"in_place": True, "output_dir": "x"}, "in_place: not allowed with output_dir"),
        ({"cluster": Cluster.snapshot(GPU, kube="1.30")}, "kube: the fit can be tested only for Kubernetes 1.34"),
    ],
)
def test_errors_name_the_argument(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as raised:
        allotment.migrate(GPU, **options)
    assert str(raised.value).startswith(message)


def test_the_options_of_the_command_have_the_same_values() -> None:
    assert get_args(MigrationStrategy) == STRATEGIES
    assert get_args(MatchAttribute) == ("", *MATCH_ATTRIBUTES)
    parameters = inspect.signature(allotment.migrate).parameters
    assert (parameters["strategy"].default, parameters["shares"].default) == ("auto", 0)
