"""``allot migrate`` as a user runs it: output, written files, and unchanged files."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from allotment.tools.migrate.report import CLASSES_FILE
from tests.unit.cli.conftest import Allot

POD = """\
# keep me
apiVersion: v1
kind: Pod
metadata:
  name: {name}
spec:
  nodeSelector:
    nvidia.com/gpu.product: Tesla-T4   # feature discovery
  containers:
  - name: main
    image: i
    resources:
      limits:
        {resource}: 1
"""
GPU = POD.format(name="a", resource="nvidia.com/gpu")
SHARE = POD.format(name="a", resource="nvidia.com/gpu.shared")


@pytest.fixture
def app(tmp_path: Path) -> Path:
    path = tmp_path / "k8s" / "app.yaml"
    path.parent.mkdir()
    path.write_text(GPU)
    return path


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_files_are_written_only_on_request(allot: Allot, app: Path) -> None:
    ran = allot("migrate", str(app))
    assert ran.code == 0
    assert ran.out.splitlines()[0] == "1 workload requests GPUs from a device plugin: 1 gets claims."
    assert "+          deviceClassName: gpu.nvidia.com\n" in ran.out
    assert "Nothing was written" in ran.out
    assert app.read_text() == GPU
    assert names(app.parent) == ["app.yaml"]


def test_lines_fit_a_terminal_of_80_columns(allot: Allot, app: Path) -> None:
    out = allot("migrate", str(app), "-d", str(app.parent / "new")).out
    whole = (str(app.parent), "device.")  # what is to be copied is not cut
    long = [line for line in out.splitlines() if len(line) > 80 and not any(word in line for word in whole)]
    assert long == []


def test_all_files_are_written_to_a_directory(allot: Allot, app: Path, tmp_path: Path) -> None:
    (app.parent / "service.yaml").write_text("apiVersion: v1\nkind: Service\nmetadata: {name: s}\n")
    ran = allot("migrate", str(app.parent), "-d", str(tmp_path / "new"))
    assert ran.code == 0
    assert names(tmp_path / "new") == ["README.md", "app.yaml", "rollback/app.yaml.before", "service.yaml"]
    assert (tmp_path / "new" / "rollback" / "app.yaml.before").read_text() == GPU
    assert "# keep me" in (tmp_path / "new" / "app.yaml").read_text()
    assert app.read_text() == GPU


def test_existing_files_are_not_overwritten(allot: Allot, app: Path, tmp_path: Path) -> None:
    ran = allot("migrate", str(app), "-d", str(app.parent))
    assert ran.code == 2
    assert "already exists" in ran.err
    assert app.read_text() == GPU
    assert allot("migrate", str(app), "-d", str(tmp_path / "new")).code == 0
    assert allot("migrate", str(app), "-d", str(tmp_path / "new")).code == 2


def test_in_place_modifies_the_file(allot: Allot, app: Path) -> None:
    assert allot("migrate", str(app), "--in-place").code == 0
    assert "resourceClaimTemplateName: a-gpu" in app.read_text()
    assert names(app.parent) == ["app.yaml"]
    again = allot("migrate", str(app), "--in-place")
    assert (again.code, again.out) == (
        0,
        "No workload requests a known GPU resource of a device plugin: nothing to change.\n",
    )


def test_new_classes_have_a_separate_file(allot: Allot, app: Path, tmp_path: Path) -> None:
    app.write_text(POD.format(name="a", resource="nvidia.com/mig-1g.5gb"))
    ran = allot("migrate", str(app), "--strategy", "class", "-d", str(tmp_path / "new"))
    assert ran.code == 0
    assert names(tmp_path / "new") == ["README.md", "app.yaml", CLASSES_FILE]
    assert allot("migrate", str(app), "--strategy", "class", "--in-place").code == 0
    assert names(app.parent) == ["app.yaml", CLASSES_FILE]
    assert allot("migrate", str(app), "--strategy", "class", "--in-place").code == 0
    (app.parent / CLASSES_FILE).write_text("mine\n")
    assert allot("migrate", str(app), "--strategy", "class", "--in-place").code == 2


def test_standard_input(allot: Allot, tmp_path: Path) -> None:
    assert allot("migrate", "-", "-d", str(tmp_path / "new"), stdin=GPU).code == 0
    assert names(tmp_path / "new") == ["README.md", "migrated.yaml", "rollback/migrated.yaml.before"]
    refused = allot("migrate", "-", "--in-place", stdin=GPU)
    assert (refused.code, "standard input" in refused.err) == (2, True)


def test_a_diff_can_be_applied_with_patch(allot: Allot, app: Path) -> None:
    ran = allot("migrate", str(app), "--diff")
    assert ran.out.startswith(f"--- {app}\n+++ {app}\n@@ ")
    assert app.read_text() == GPU


@pytest.mark.skipif(shutil.which("patch") is None, reason="there is no patch")
@pytest.mark.parametrize(
    "text", [GPU, GPU.rstrip("\n"), GPU.replace("\n", "\r\n")], ids=["LF", "no newline at the end", "CRLF"]
)
def test_patch_reproduces_the_written_files(allot: Allot, app: Path, tmp_path: Path, text: str) -> None:
    app.write_bytes(text.encode())
    assert allot("migrate", str(app), "-d", str(tmp_path / "new")).code == 0
    diff = allot("migrate", str(app), "--diff").out
    subprocess.run(["patch", "-s", str(app)], input=diff.encode(), check=True)
    assert app.read_bytes() == (tmp_path / "new" / "app.yaml").read_bytes()


def test_equal_details_are_printed_once(allot: Allot, app: Path) -> None:
    plain = "\n".join(line for line in GPU.splitlines() if "nodeSelector" not in line and "product" not in line)
    app.write_text("\n---\n".join(plain.replace("name: a", f"name: {name}") for name in "abc"))
    ran = allot("migrate", str(app))
    assert ran.out.splitlines()[2:5] == [
        f"{app}:{line} Pod default/{name}: stays, served by class gpu.nvidia.com"
        for line, name in ((2, "a"), (15, "b"), (28, "c"))
    ]
    assert ran.out.count("It requests only a number of whole GPUs") == 1


def test_each_file_contains_the_templates_it_requires(allot: Allot, app: Path, tmp_path: Path) -> None:
    (app.parent / "other.yaml").write_text(POD.format(name="b", resource="nvidia.com/gpu"))
    assert allot("migrate", str(app.parent), "-d", str(tmp_path / "new")).code == 0
    for file, name in (("app.yaml", "a-gpu"), ("other.yaml", "b-gpu")):
        text = (tmp_path / "new" / file).read_text()
        assert f"resourceClaimTemplateName: {name}\n" in text
        assert f"  name: {name}\n" in text


def test_skipped_patches_are_reported(allot: Allot, app: Path) -> None:
    (app.parent / "kustomization.yaml").write_text("resources: [app.yaml]\npatches: [{path: more.yaml}]\n")
    (app.parent / "more.yaml").write_text(GPU)
    ran = allot("migrate", str(app.parent))
    assert "1 workload requests" in ran.out
    assert f"Skipped 1 patch ({app.parent / 'more.yaml'}); migrate the complete output with: kubectl" in " ".join(
        ran.out.split()
    )
    data = json.loads(allot("migrate", str(app.parent), "-o", "json").out)
    assert data["leftOut"] == [str(app.parent / "more.yaml")]


def test_unmigratable_workload_exits_with_1(allot: Allot, app: Path) -> None:
    app.write_text(SHARE)
    ran = allot("migrate", str(app))
    assert ran.code == 1
    assert "1 cannot be migrated" in ran.out.splitlines()[0]
    assert allot("migrate", str(app), "--shares", "2").code == 0


def test_json_has_the_same_content(allot: Allot, app: Path) -> None:
    data = json.loads(allot("migrate", str(app), "--output", "json").out)
    assert data["decided"] is True
    (workload_,) = data["workloads"]
    assert (workload_["kind"], workload_["decision"]["outcome"], workload_["claimName"]) == ("Pod", "template", "a-gpu")
    assert data["made"][0]["kind"] == "ResourceClaimTemplate"
    assert list(data["files"]) == [str(app)]


@pytest.mark.parametrize(
    "words",
    [
        ("--shares", "1"),
        ("--kube-version", "1.99"),
        ("--kube-version", "1.30", "--fleet", "l4"),
        ("--feature-gates", "DRANope=true"),
        ("--fleet", "nope"),
        ("--strategy", "elsewhere"),
    ],
)
def test_invalid_options_exit_with_2(allot: Allot, app: Path, words: tuple[str, ...]) -> None:
    assert allot("migrate", str(app), *words).code == 2


def test_an_unreadable_file_exits_with_2(allot: Allot, app: Path) -> None:
    app.write_text("a: [\n")
    assert allot("migrate", str(app)).code == 2
    assert allot("migrate", str(app.parent / "none.yaml")).code == 2


def test_a_release_without_the_api_changes_nothing(allot: Allot, app: Path) -> None:
    ran = allot("migrate", str(app), "--kube-version", "1.32")
    assert ran.code == 0
    assert "stays with the device plugin" in ran.out
    assert "@@" not in ran.out
