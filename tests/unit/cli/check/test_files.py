"""Selection of the files to check, and invalid input."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.unit.cli.check.conftest import Write
from tests.unit.cli.conftest import Allot

OLD = "apiVersion: v1\nkind: Thing\nmetadata:\n  name: old\n"
CHART = "apiVersion: v1\nkind: Thing\nmetadata:\n  name: {{ .Values.name }}\n  {{- if .x }}\n"


def test_other_files_in_directories_are_skipped(allot: Allot, write: Write) -> None:
    write(
        {
            "compose.yaml": "services:\n  a: {image: b}\n",
            "ci.yml": "on: push\njobs: []\n",
            "list.yaml": "- a\n- b\n",
            "tsconfig.json": '{"a": 1, // b\n}',
            "broken.yaml": "a: [\n",
            "Chart.yaml": "apiVersion: v2\nname: x\n",
            "node_modules/x/a.yaml": OLD,
            ".hidden/a.yaml": OLD,
            "templates/a.yaml": CHART,
            "templates/b.yaml": CHART,
            "app.yaml": "apiVersion: v1\nkind: Thing\n",
        }
    )
    ran = allot("check")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == (
        "The object in 1 file is fine.\n"
        "Skipped 2 templates (templates/a.yaml, …); check their output with: helm template … | allot check -\n"
    )


def test_patches_of_a_kustomization_are_skipped(allot: Allot, write: Write) -> None:
    write(
        {
            "base/kustomization.yaml": "resources: [app.yaml]\n",
            "base/app.yaml": "apiVersion: v1\nkind: Thing\nmetadata:\n  name: a\n",
            "prod/kustomization.yaml": (
                "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [../base]\n"
                "patches:\n- path: ./patch.yaml\n- target: {kind: Thing}\n  patch: inline\n"
                "patchesStrategicMerge:\n- more/old.yaml\n- |\n  kind: Thing\npatchesJson6902: [{path: json.yaml}]\n"
            ),
            "prod/patch.yaml": OLD,
            "prod/more/old.yaml": OLD,
            "prod/json.yaml": "- {op: replace, path: /spec, value: 3}\n",
        }
    )
    assert allot("check") == (
        0,
        (
            "All 2 objects in 2 files are fine.\n"
            "Skipped 2 patches (prod/patch.yaml, …); check the complete output with: kubectl kustomize … | "
            "allot check -\n"
        ),
        "",
    )
    assert allot("check", "prod/patch.yaml").code == 1, "explicitly named files are checked"


def test_an_explicitly_named_template_is_reported_as_one(allot: Allot, write: Write) -> None:
    write({"templates/a.yaml": CHART})
    ran = allot("check", "templates/a.yaml")
    assert ran.code == 1
    assert "  help: if it is a template, check its output: helm template … | allot check -\n" in ran.out


@pytest.mark.parametrize("name", ["compose.yaml", "broken.yaml", "list.yaml", "templates/a.yaml"])
def test_named_file_is_always_checked(allot: Allot, write: Write, name: str) -> None:
    files = {"compose.yaml": "spec: {}\n", "broken.yaml": "a: [\n", "list.yaml": "- a\n", "templates/a.yaml": CHART}
    write(files)
    assert name in allot("check", name).out
    assert name not in allot("check", name, "--force-exclude").out.partition("Skipped")[0]


def test_fragments_with_device_fields_are_checked(allot: Allot, write: Write) -> None:
    write(
        {
            "a.yaml": "spec: {}\nresources: {limits: {nvidia.com/gpu: 1}}\nkind: x\n",
            "b.yaml": "spec: {}\nkind: x\n",
            "c.yaml": "spec: {}\nselectors: [{cel: {expression: device.driver == 'x'}}]\nkind: x\n",
        }
    )
    found = allot("check", "-o", "concise").out
    assert "a.yaml" in found
    assert "b.yaml" not in found
    assert "c.yaml" in found


def test_unreadable_object_in_a_directory_is_reported(allot: Allot, write: Write) -> None:
    write({"a.yaml": "apiVersion: v1\nkind: [\n"})
    ran = allot("check")
    assert ran.code == 1
    assert ran.out.startswith("a.yaml:3:1 S100 invalid YAML: ")


def test_file_given_by_two_paths_is_read_once(allot: Allot, write: Write) -> None:
    folder = write({"a.yaml": OLD})
    (folder / "link.yaml").symlink_to("a.yaml")
    assert allot("check", "a.yaml", ".", "./a.yaml", "link.yaml").out.count("S191") == 1


def test_standard_input_may_have_a_name(allot: Allot, write: Write) -> None:
    write({})
    assert allot("check", "-", stdin=OLD).out.startswith("<stdin>:4:9 S191")
    assert allot("check", "-", "--stdin-filename", "app.yaml", stdin=OLD).out.startswith("app.yaml:4:9 S191")


def test_files_can_follow_options(allot: Allot, write: Write) -> None:
    write({"a.yaml": OLD, "b.yaml": OLD})
    assert allot("check", "a.yaml", "--select", "S", "b.yaml").out.count("S191") == 2


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\x00\x01binary", "a.yaml:1:1 S100 a binary file, not YAML or JSON"),
        ("kind: ä".encode("latin-1"), "a.yaml:1:7 S100 not UTF-8: byte 0xE4"),
        (OLD.encode("utf-16"), "S100 not UTF-8"),
        (b"a: 1\na: 2\n", 'a.yaml:2:1 S100 duplicate field "a"'),
        (b"- 1\n", "a.yaml:1:1 S100 expected an object, found a list"),
    ],
)
def test_content_that_cannot_be_read_is_a_finding(allot: Allot, write: Write, data: bytes, words: str) -> None:
    folder = write({})
    (folder / "a.yaml").write_bytes(data)
    ran = allot("check", "a.yaml")
    assert (ran.code, ran.err) == (1, "")
    assert words in ran.out


def test_binary_content_is_not_shown(allot: Allot, write: Write) -> None:
    folder = write({})
    (folder / "a.yaml").write_bytes(bytes(range(128, 160)) * 3)
    assert " | " not in allot("check", "a.yaml").out


def test_a_tab_is_reported_as_one(allot: Allot, write: Write) -> None:
    write({"a.yaml": "a:\n\t- b\n"})
    assert "  help: found a tab: indent YAML with spaces\n" in allot("check", "a.yaml").out


def test_an_empty_file_has_no_findings(allot: Allot, write: Write) -> None:
    write({"a.yaml": ""})
    assert allot("check", "a.yaml") == (0, "Nothing to check: no Kubernetes objects found.\n", "")


def test_a_missing_file_exits_with_2(allot: Allot, write: Write) -> None:
    write({"a.yaml": OLD})
    ran = allot("check", "b.yaml", "a.yaml", "c.yaml")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == (
        "b.yaml: unreadable: cannot read the file: no such file or directory\n"
        "c.yaml: unreadable: cannot read the file: no such file or directory\n"
        "Found 2 errors in 2 files.\n"
    )


def test_a_directory_without_files_exits_with_2(allot: Allot, write: Write) -> None:
    write({"sub/readme.txt": "x"})
    ran = allot("check", "sub")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("sub: no-files: no .yaml, .yml or .json files in this directory\n")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_file_exits_with_2(allot: Allot, write: Write) -> None:
    folder = write({"a.yaml": OLD})
    Path(folder / "a.yaml").chmod(0)
    assert allot("check").code == 2


def test_a_missing_snapshot_exits_with_2(allot: Allot, write: Write) -> None:
    write({"a.yaml": OLD})
    ran = allot("check", "--cluster", "nowhere.yaml")
    assert (ran.code, ran.out) == (2, "")
    assert "nowhere.yaml" in ran.err
