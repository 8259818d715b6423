"""The output of ``doctor``: the verdict first, findings by severity, and the same for a cluster and its snapshot."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import allotment
from allotment.model.serialization import to_yaml
from tests.unit.cli.conftest import Allot
from tests.unit.tools.doctor.defects import DEFECTS
from tests.unit.tools.doctor.sample_cluster import Cluster

TYPO = """\
apiVersion: v1
kind: Pod
metadata: {name: typo}
spec:
  resourceClaims: [{name: gpu, resourceClaimTemplateName: nowhere}]
  containers: [{name: c, image: busybox, resources: {claims: [{name: gpu}]}}]
"""


def sick(tmp_path: Path, *codes: str) -> str:
    """A snapshot of a cluster with these defects."""
    cluster = Cluster()
    for defect in DEFECTS:
        if defect.code in codes:
            defect.create(cluster)
    file = tmp_path / "sick.yaml"
    file.write_text(to_yaml(cluster.trees))
    return str(file)


def test_healthy_cluster_is_one_line(allot: Allot, tmp_path: Path) -> None:
    ran = allot("doctor", "--cluster", sick(tmp_path))
    assert ran.code == 0
    verdict, _, rest = ran.out.partition("\n")
    assert verdict == "No problems found in 2 nodes, 4 devices, 1 claim and 3 pods."
    assert rest.startswith("\nNot checked: ")


def test_only_errors_set_the_exit_code(allot: Allot, tmp_path: Path) -> None:
    assert allot("doctor", "--cluster", sick(tmp_path, "D305")).code == 0
    assert allot("doctor", "--cluster", sick(tmp_path, "D501")).code == 1


def test_lines_fit_80_columns_and_commands_are_not_wrapped(allot: Allot, tmp_path: Path) -> None:
    # Some of them take away what others break.
    every = [defect.code for defect in DEFECTS if defect.code not in ("D201", "D302", "D304", "D401")]
    ran = allot("doctor", "--cluster", sick(tmp_path, *every))
    lines = ran.out.splitlines()
    assert re.fullmatch(r"\d+ errors, \d+ warnings and \d+ notes? in .*", lines[0])
    assert lines[2] == "SEVERITY   CODE   SUBJECT"
    assert [line for line in lines if len(line) > 80 and not line.startswith(("    $ ", "next: "))] == []
    severities = [line.split()[0] for line in lines[3:] if re.match(r"(error|warning|note) +D", line)]
    assert severities == sorted(severities, key=("error", "warning", "note").index)


def test_the_first_command_is_the_next_step(allot: Allot, tmp_path: Path) -> None:
    file = sick(tmp_path, "D602")
    data = json.loads(allot("doctor", "--cluster", file, "--select", "D602", "-o", "json").out)
    assert data["next"] == "allot explain pod/big-0 -n ml -o manifests | kubectl replace --force -f -"
    assert f"\n\nnext: {data['next']}\n" in allot("doctor", "--cluster", file, "--select", "D602").out
    assert "next" not in json.loads(allot("doctor", "--cluster", sick(tmp_path), "-o", "json").out)


def test_checks_can_be_selected(allot: Allot, tmp_path: Path) -> None:
    file = sick(tmp_path, "D501", "D305", "D602")
    ran = allot("doctor", "--cluster", file, "--select", "d5,D305", "-o", "json")
    assert {finding["code"] for finding in json.loads(ran.out)["findings"]} == {"D501", "D305"}
    ran = allot("doctor", "--cluster", file, "--select", "D999")
    assert ran.code == 2
    assert ran.err.startswith("allot: error: --select: unknown check 'D999'")


def test_wide_lists_all_objects_with_reasons(allot: Allot, tmp_path: Path) -> None:
    file = sick(tmp_path, "D602")
    assert "ml/big-6" not in allot("doctor", "--cluster", file).out
    wide = " ".join(allot("doctor", "--cluster", file, "-o", "wide").out.split())
    assert "all objects: ml/big-0, ml/big-1, ml/big-2, ml/big-3, ml/big-4, ml/big-5, ml/big-6" in wide
    assert "why: The cause is determined in the same way as by `allot explain`" in wide


def test_json_output(allot: Allot, tmp_path: Path) -> None:
    data = json.loads(allot("doctor", "--cluster", sick(tmp_path, "D501"), "-o", "json").out)
    assert data["counts"] == {"error": 1, "warning": 0, "note": 0}
    (finding,) = data["findings"]
    assert finding["objects"] == ["ml/web-gpu", "ml/stolen"]
    assert "D104" in data["skipped"]


def test_the_checks_are_listed(allot: Allot) -> None:
    ran = allot("doctor", "--list")
    assert ran.code == 0
    assert len(ran.out.splitlines()) == len(DEFECTS) + 1
    assert all("why" in row for row in json.loads(allot("doctor", "--list", "-o", "json").out))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--cluster", "none.yaml"], "none.yaml"),
        (["--cluster", "-"], "no Kubernetes objects in -"),
        (["--cluster", "a.yaml", "--context", "b"], "use only one of them"),
        (["-f", "a.yaml"], "use --cluster FILE"),
        (["-n", "ml"], "all namespaces share the devices"),
    ],
)
def test_mistakes_have_hints(allot: Allot, words: list[str], expected: str) -> None:
    ran = allot("doctor", *words)
    assert ran.code == 2
    assert expected in ran.err


@pytest.mark.parametrize(
    ("kind", "note"),
    [("apiVersion: v1\nkind: Pod", "ignored: Pod without a name"), ("apiVersion: x/v1\nkind: Foo", "")],
)
def test_an_object_whose_metadata_is_not_a_mapping_is_ignored(
    allot: Allot, tmp_path: Path, kind: str, note: str
) -> None:
    (tmp_path / "a.yaml").write_text(f"{kind}\nmetadata: text\n")
    ran = allot("doctor", "--cluster", str(tmp_path))
    assert ran.code == 0
    assert note in ran.out + ran.err


def test_snapshots_of_one_cluster_can_be_combined(allot: Allot, tmp_path: Path) -> None:
    facts = "apiVersion: allotment.dev/v1\nkind: ServerFacts\nmetadata: {name: server}\n"
    (tmp_path / "a.yaml").write_text(facts)
    (tmp_path / "b.yaml").write_text(facts)
    assert "defined twice" not in allot("doctor", "--cluster", str(tmp_path)).err


def test_an_object_defined_twice_is_rejected(allot: Allot, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(TYPO)
    (tmp_path / "b.yaml").write_text(TYPO)
    ran = allot("doctor", "--cluster", str(tmp_path))
    assert ran.code == 2
    assert f"{tmp_path}/b.yaml:3:18: given-twice: Pod typo is defined twice" in ran.err
    assert f"first defined at {tmp_path}/a.yaml:3:18" in ran.err


def test_an_invalid_object_does_not_affect_others(allot: Allot, tmp_path: Path) -> None:
    cluster = Cluster()
    cluster["Pod", "web"]["spec"]["containers"] = "none"
    file = tmp_path / "odd.yaml"
    file.write_text(to_yaml(cluster.trees))
    ran = allot("doctor", "--cluster", str(file))
    assert "note: ignored: Pod ml/web: Expected `array`" in ran.out


@pytest.fixture
def live_allot(allot: Allot, lab: allotment.Lab, monkeypatch: pytest.MonkeyPatch) -> Allot:
    """``allot`` with the lab as the current context."""
    monkeypatch.setenv("KUBECONFIG", str(lab.kubeconfig))
    return allot


def test_lab_and_its_snapshots_have_the_same_findings(live_allot: Allot, namespace: str, tmp_path: Path) -> None:
    live_allot("apply", "-f", "-", "-n", namespace, stdin=TYPO)
    ran = live_allot("doctor", "--select", "D603")
    assert ran.code == 1
    assert '"nowhere"' in ran.out
    live_allot("snapshot", "-o", str(tmp_path / "snapshot.yaml"))
    live_allot("snapshot", "--redact", "-o", str(tmp_path / "redacted.json"))
    assert live_allot("doctor", "--select", "D603", "--cluster", str(tmp_path / "snapshot.yaml")).out == ran.out
    redacted = live_allot("doctor", "--select", "D603", "-o", "json", "--cluster", str(tmp_path / "redacted.json")).out
    assert json.loads(redacted)["counts"]["error"] == 1
    assert "nowhere" not in redacted


def test_gates_and_permissions_of_a_lab_are_known(live_allot: Allot) -> None:
    data = json.loads(live_allot("doctor", "-o", "json").out)
    assert (data["notLookedAt"], data["skipped"]) == ({}, [])
