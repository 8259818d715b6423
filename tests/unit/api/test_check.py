"""``check`` and ``fix``: the findings, texts and errors that a program gets."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest

import allotment
from allotment import Cluster, InputError, InvalidManifests
from allotment.cli.arguments.check import FAIL_ON as FAIL_ON_OPTION
from allotment.cli.main import main
from allotment.tools.check.report import FAIL_ON, FailOn

CLAIM = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: gpu}
spec:
  devices:
    requests:
    - name: gpu
      deviceClassName: gpu.nvidia.com
"""
FIXED = CLAIM.replace(
    "      deviceClassName: gpu.nvidia.com", "      exactly:\n        deviceClassName: gpu.nvidia.com"
)


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """``app.yaml`` in the current folder."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "app.yaml"
    file.write_text(CLAIM)
    return file


def test_findings_have_file_line_and_code(app: Path) -> None:
    report = allotment.check(app)
    (finding,) = report.findings
    assert (finding.where.file, finding.where.line, finding.code) == (str(app), 8, "S102")
    assert (report.fails, report.objects, report.texts) == (True, 1, {})


def test_without_sources_the_current_folder_is_checked(app: Path) -> None:
    report = allotment.check()
    assert list(report.sources) == [app.name]
    assert report.next == "allot check --fix"


@pytest.mark.parametrize(
    ("words", "options"),
    [
        (["check", "app.yaml"], {}),
        (["check", "app.yaml", "--fleet", "t4", "--select", "S"], {"cluster": Cluster.fleet("t4"), "select": ["S"]}),
        (
            ["check", "app.yaml", "--kube-version", "1.36", "--driver", "gpu.nvidia.com=25.8", "-n", "ml"],
            {"cluster": Cluster(kube="1.36"), "drivers": {"gpu.nvidia.com": "25.8"}, "namespace": "ml"},
        ),
    ],
)
@pytest.mark.usefixtures("app")
def test_the_command_prints_the_same(
    words: list[str], options: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "-o", "json"]) == 1
    printed = json.loads(capsys.readouterr().out)
    found = allotment.check("app.yaml", **options).to_dict()
    # The command repeats its arguments, with the output format.
    assert found.pop("next") == printed.pop("next").replace("-o json ", "")
    assert found == printed


@pytest.mark.usefixtures("app")
def test_sarif_is_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    main(["check", "app.yaml", "-o", "sarif"])
    assert allotment.check("app.yaml").to_sarif() == json.loads(capsys.readouterr().out)


def test_workloads_are_tried_on_the_cluster() -> None:
    assert allotment.check(FIXED, cluster=Cluster.fleet("t4")).to_dict()["summary"]["fits"] is True
    amd = allotment.check(FIXED, cluster=Cluster.fleet("mi300x"))
    assert (amd.place, amd.fits, amd.fails) == ("mi300x", False, True)


def test_a_snapshot_can_be_any_objects() -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}}
    report = allotment.check(FIXED, cluster=Cluster.snapshot(node))
    assert (report.place, report.fits, report.fails) == ("the snapshot", False, True)


@pytest.mark.parametrize(("level", "fails"), [("error", False), ("warning", False), ("note", False), ("never", False)])
def test_a_report_without_findings_does_not_fail(level: FailOn, fails: bool) -> None:
    assert allotment.check(FIXED, fail_on=level).fails is fails


def test_the_level_at_which_a_report_fails_can_be_chosen() -> None:
    assert not allotment.check(CLAIM, fail_on="never").fails
    assert FAIL_ON == FAIL_ON_OPTION == get_args(FailOn)


# --- configuration ---------------------------------------------------------------------------------------------------


def test_the_configuration_of_the_folder_applies(app: Path) -> None:
    (app.parent / "allotment.toml").write_text('[check]\nignore = ["S", "P"]\nfleet = "t4"\nfail-on = "never"\n')
    assert allotment.check(app).findings == ()
    assert allotment.check(app).place == "t4"
    assert allotment.check(app, isolated=True).fails
    assert allotment.check(app, ignore=["M"]).findings != ()
    assert not allotment.check(app, ignore=["M"]).fails
    assert allotment.check(app, ignore=["M"], fail_on="error").fails


def test_a_release_does_not_replace_the_hardware_of_the_configuration(app: Path) -> None:
    (app.parent / "allotment.toml").write_text('[check]\nfleet = "t4"\nkube-version = "1.35"\n')
    assert allotment.check(app, cluster=Cluster(kube="1.36")).place == "t4"
    assert allotment.check(app, cluster=Cluster.fleet("l4")).place == "l4"


def test_a_named_configuration_is_used(app: Path) -> None:
    other = app.parent / "other" / "allotment.toml"
    other.parent.mkdir()
    other.write_text('[check]\nselect = ["C"]\n')
    assert allotment.check(app, config=other).findings == ()
    other.write_text("[tool]\n")
    with pytest.raises(InputError, match="unknown table: tool"):
        allotment.check(app, config=other)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"select": ["Q"]}, "select: unknown rule 'Q'"),
        ({"fail_on": "warn"}, "fail_on: expected one of error, warning, note, never, found 'warn'"),
        ({"ignore": "Q"}, "ignore: unknown rule 'Q'"),
        ({"drivers": {"x": "1"}}, "drivers: unknown driver 'x'"),
        ({"driver_gates": {"MPSSuport": True}}, "driver_gates: unknown gate 'MPSSuport'"),
        ({"cluster": Cluster(kube="1.12")}, "kube: expected one of "),
        ({"cluster": Cluster(gates={"DRA": True})}, "gates: unrecognized feature gate: DRA"),
    ],
)
def test_errors_name_the_argument(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as raised:
        allotment.check(FIXED, **options)
    assert str(raised.value).startswith(message)
    assert "--" not in str(raised.value)


def test_a_missing_file_is_an_error_with_its_name() -> None:
    with pytest.raises(InvalidManifests) as raised:
        allotment.check("nowhere.yaml")
    assert [problem.position.file for problem in raised.value.problems] == ["nowhere.yaml"]


# --- fixes -----------------------------------------------------------------------------------------------------------


def test_fixed_texts_are_returned_and_files_unchanged(app: Path) -> None:
    report = allotment.fix(app)
    assert report.texts == {str(app): FIXED}
    assert [finding.code for finding in report.fixed] == ["S102"]
    assert (report.findings, report.fails, app.read_text()) == ((), False, CLAIM)


def test_fixed_findings_are_sorted_by_their_places_in_the_original_text() -> None:
    selector = (
        "      selectors: [{cel: {expression: \"device.capacity['gpu.nvidia.com'].memory >= 40\"}}]\n"
        "      count: 1\n"
    )  # fmt: skip
    text = f"{CLAIM}{selector}---\n{CLAIM.replace('/v1', '/v1beta1').replace('name: gpu}', 'name: old}')}"
    report = allotment.fix(text, unsafe=True)
    # The second one is found only after the first is fixed, which adds a line.
    places = [(finding.code, finding.where.line) for finding in report.fixed]
    assert places == [("S102", 8), ("C210", 9), ("S101", 12)]
    assert [entry["line"] for entry in report.to_dict()["fixed"]] == [8, 9, 12]


@pytest.mark.usefixtures("app")
def test_fixed_files_are_written_as_by_the_command(app: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = allotment.fix("app.yaml", write=True).to_dict()
    assert app.read_text() == FIXED
    app.write_text(CLAIM)
    assert main(["check", "app.yaml", "--fix", "-o", "json"]) == 0
    assert found == json.loads(capsys.readouterr().out)


def test_no_file_is_written_if_one_cannot_be(app: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = app.parent / "other.yaml"
    other.write_text(CLAIM)
    monkeypatch.setattr("os.access", lambda path, mode: Path(path).name != "other.yaml")
    with pytest.raises(InputError, match=r"other\.yaml: cannot be written"):
        allotment.fix(app.parent, write=True)
    assert (app.read_text(), other.read_text()) == (CLAIM, CLAIM)


def test_texts_streams_and_dicts_are_fixed_but_not_written(app: Path) -> None:
    tree = {
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "gpu"},
        "spec": {"devices": {"requests": [{"name": "gpu", "deviceClassName": "gpu.nvidia.com"}]}},
    }  # fmt: skip
    stream = io.StringIO(CLAIM)
    stream.name = str(app)  # as that of an open file
    report = allotment.fix(CLAIM, CLAIM, tree, stream, write=True)
    assert set(report.texts) == {"<text>", "<text> 2", "<dict>", str(app)}
    assert [report.texts[name] for name in ("<text>", "<text> 2", str(app))] == [FIXED] * 3
    assert "exactly:\n        deviceClassName" in report.texts["<dict>"]
    assert app.read_text() == CLAIM


def test_loaded_manifests_are_written_to_their_files(app: Path) -> None:
    allotment.fix(allotment.load(app), write=True)
    assert app.read_text() == FIXED


def test_a_text_cannot_be_named_by_a_command() -> None:
    assert allotment.check(CLAIM).next == "allot rule S102"


def test_a_document_cannot_be_named_by_a_command(app: Path) -> None:
    assert allotment.check(allotment.load(app)).next == f"allot check {app} --fix"
    assert allotment.check(allotment.load(app)[:]).next == "allot rule S102"


def test_many_texts_are_checked() -> None:
    texts = [CLAIM.replace("name: gpu}", f"name: gpu-{number}}}") for number in range(50)]
    assert allotment.check(*texts, select="S102").objects == 50


def test_a_dash_is_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(CLAIM.encode())))
    assert [finding.where.file for finding in allotment.check("-").findings] == ["<stdin>"]


@pytest.mark.usefixtures("app")
def test_the_next_command_has_all_arguments() -> None:
    report = allotment.check(
        "app.yaml", cluster=Cluster.fleet("t4", kube="1.36"), select="S,P", drivers={"gpu.nvidia.com": "25.8"},
        namespace="ml", fail_on="note", isolated=True,
    )  # fmt: skip
    assert report.next == (
        "allot check app.yaml --fleet t4 --kube-version 1.36 --driver gpu.nvidia.com=25.8 --select S,P"
        " -n ml --fail-on note --isolated --fix"
    )


def test_files_are_checked_without_network_libraries(app: Path) -> None:
    program = f"""
import sys, allotment
allotment.check({str(app)!r}, cluster=allotment.Cluster.fleet("t4"))
heavy = ("aiohttp", "allotment.lab", "allotment.cluster.remote", "argparse")
raise SystemExit([name for name in sys.modules if name.startswith(heavy)])
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (1, "[]\n")
