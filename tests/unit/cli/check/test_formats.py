"""Machine-readable formats: JSON, SARIF, GitHub's annotations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from allotment.cli.check.github import commands
from allotment.tools.check.finding import Finding, SourceRange
from tests.unit.cli.check.conftest import Write
from tests.unit.cli.conftest import Allot

OLD = "apiVersion: v1\nkind: Thing\nmetadata:\n  name: old\n"
TWO = f"{OLD}note: gues\n"


def test_json_contains_all_properties_of_a_finding(allot: Allot, write: Write) -> None:
    write({"a.yaml": TWO})
    ran = allot("check", "-o", "json")
    found: dict[str, Any] = json.loads(ran.out)
    assert ran.code == 1
    assert found["summary"] == {
        "errors": 1, "warnings": 1, "notes": 0, "fixable": 1, "fixableUnsafely": 1, "silenced": 0, "objects": 1,
        "files": 1, "leftOut": [],
    }  # fmt: skip
    assert found["fixed"] == []
    assert found["findings"][0] == {
        "code": "S191", "name": "old-name", "level": "error", "message": "`old` is an old name",
        "file": "a.yaml", "line": 4, "column": 9, "endLine": 4, "endColumn": 12,
        "path": "metadata.name", "subject": "Thing old", "help": "",
        "url": "docs/reference/rules/shape.md#s191-old-name",
        "fix": {
            "text": "call it new", "safe": True,
            "replacements": [
                {"file": "a.yaml", "line": 4, "column": 9, "endLine": 4, "endColumn": 12, "text": "new"}
            ],
        },
    }  # fmt: skip


def test_json_without_findings_has_the_same_shape(allot: Allot, write: Write) -> None:
    write({"a.yaml": "apiVersion: v1\nkind: Thing\n"})
    ran = allot("check", "-o", "json")
    assert ran.code == 0
    assert json.loads(ran.out)["findings"] == []


def _sarif(allot: Allot) -> dict[str, Any]:
    log: dict[str, Any] = json.loads(allot("check", "-o", "sarif").out)
    return log


def test_sarif_conforms_to_the_specification(allot: Allot, write: Write) -> None:
    write({"with blank/a.yaml": TWO})
    log = _sarif(allot)
    assert log["version"] == "2.1.0"
    assert log["$schema"].endswith("/sarif-schema-2.1.0.json")
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == ["S100", "S116", "S191", "S192", "V391", "M491"]
    for rule in rules:
        assert rule["shortDescription"]["text"]
        assert rule["help"]["text"]
        assert rule["help"]["markdown"]
        assert rule["defaultConfiguration"]["level"] in ("error", "warning", "note")
    assert rules[-1]["helpUri"] == "https://example.com"
    assert [result["ruleId"] for result in run["results"]] == ["S191", "V391"]
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["message"]["text"]
        (location,) = result["locations"]
        assert location["physicalLocation"]["artifactLocation"]["uri"] == "with%20blank/a.yaml"
    assert run["results"][0]["locations"][0]["physicalLocation"]["region"] == {
        "startLine": 4, "startColumn": 9, "endLine": 4, "endColumn": 12,
    }  # fmt: skip
    assert run["columnKind"] == "unicodeCodePoints"


def test_sarif_locates_absolute_paths_by_file_uris(allot: Allot, write: Write) -> None:
    write({"with blank/a.yaml": TWO})
    file = Path("with blank/a.yaml").resolve()
    log = json.loads(allot("check", str(file), "-o", "sarif").out)
    uris = {
        location["physicalLocation"]["artifactLocation"]["uri"]
        for result in log["runs"][0]["results"]
        for location in result["locations"]
    }
    assert uris == {file.as_uri()}


def test_sarif_offers_fixes(allot: Allot, write: Write) -> None:
    write({"a.yaml": TWO})
    safe, unsafe = _sarif(allot)["runs"][0]["results"]
    (change,) = safe["fixes"][0]["artifactChanges"]
    assert change["artifactLocation"] == {"uri": "a.yaml"}
    assert change["replacements"] == [
        {
            "deletedRegion": {"startLine": 4, "startColumn": 9, "endLine": 4, "endColumn": 12},
            "insertedContent": {"text": "new"},
        }
    ]
    assert "unsafe" in unsafe["fixes"][0]["description"]["text"]


def test_fingerprints_are_unique_and_independent_of_lines(allot: Allot, write: Write) -> None:
    def fingerprints() -> list[str]:
        return [result["partialFingerprints"]["allotment/v1"] for result in _sarif(allot)["runs"][0]["results"]]

    write({"a.yaml": f"{TWO}---\n{TWO}"})
    before = fingerprints()
    write({"a.yaml": f"# a line more\n\n{TWO}---\n# and here\n{TWO}"})
    assert fingerprints() == before
    assert len(set(before)) == 4


def test_sarif_of_a_complete_check_says_so(allot: Allot, write: Write) -> None:
    write({"a.yaml": TWO})
    assert _sarif(allot)["runs"][0]["invocations"] == [{"executionSuccessful": True}]


def test_sarif_reports_files_that_cannot_be_read(allot: Allot, write: Write) -> None:
    folder = write({"a.yaml": TWO})
    (folder / "cluster.yaml").write_text("kind: Node\nmetadata: [\n")
    ran = allot("check", "a.yaml", "nowhere.yaml", "-o", "sarif")
    assert (ran.code, ran.err) == (2, allot("check", "a.yaml", "nowhere.yaml").err)
    (run,) = json.loads(ran.out)["runs"]
    assert "results" not in run, "an empty list means that nothing was found"
    assert run["invocations"] == [
        {
            "executionSuccessful": False,
            "toolExecutionNotifications": [
                {
                    "descriptor": {"id": "unreadable"},
                    "level": "error",
                    "message": {"text": "cannot read the file: no such file or directory"},
                    "locations": [{"physicalLocation": {"artifactLocation": {"uri": "nowhere.yaml"}}}],
                }
            ],
        }
    ]
    (run,) = json.loads(allot("check", "a.yaml", "--cluster", "cluster.yaml", "-o", "sarif").out)["runs"]
    (reason,) = run["invocations"][0]["toolExecutionNotifications"]
    assert reason["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "cluster.yaml"}, "region": {"startLine": 3, "startColumn": 1},
    }  # fmt: skip


def test_sarif_reports_invalid_arguments(allot: Allot, write: Write) -> None:
    write({"a.yaml": TWO})
    ran = allot("check", "--select", "Q", "-o", "sarif")
    assert (ran.code, ran.err) == (2, allot("check", "--select", "Q").err)
    assert json.loads(ran.out)["runs"][0]["invocations"] == [
        {
            "executionSuccessful": False,
            "toolConfigurationNotifications": [{"level": "error", "message": {"text": "--select: unknown rule 'Q'"}}],
        }
    ]


def test_github_annotations(allot: Allot, write: Write) -> None:
    write({"a.yaml": TWO})
    ran = allot("check", "-o", "github")
    assert ran.out.splitlines()[0] == (
        "::error file=a.yaml,line=4,endLine=4,col=9,endColumn=12,title=S191 old-name::`old` is an old name%0A"
        "call it new (allot check --fix)"
    )
    assert ran.out.splitlines()[1].startswith("::warning file=a.yaml,line=5,")


def test_annotations_are_escaped() -> None:
    where = SourceRange("a,b:c%.yaml", 1, 2, 3, 4)
    finding = Finding(code="S1", name="x", level="note", message="100% sure:\r\nno, 1::2", where=where, help="h")
    assert list(commands([finding])) == [
        "::notice file=a%2Cb%3Ac%25.yaml,line=1,endLine=3,col=2,title=S1 x::100%25 sure:%0D%0Ano, 1::2%0Ah"
    ]
