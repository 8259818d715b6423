"""``python -m release``: reproducible files, each in the form that its tool expects."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

import allotment
from release.lock_file import installed_with
from release.source_tree import timestamp
from tests.packaging import built_release
from tests.packaging import helm as helm_program
from tests.packaging.built_release import PLATFORM, URL
from tests.packaging.helm import CHART, ROOT

VERSION = allotment.__version__


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_release.build(tmp_path_factory.mktemp("release") / "dist")


def members(archive: bytes) -> dict[str, tuple[int, bytes]]:
    """The mode and content of each member of a tar archive, in its order."""
    found = {}
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        for member in opened:
            file = opened.extractfile(member)
            found[member.name] = (member.mode, file.read() if file else b"")
    return found


def test_every_file_is_built_and_has_its_sum(dist: Path) -> None:
    assert {file.name for file in dist.iterdir()} == {
        f"allotment-{VERSION}.tar.gz", f"allotment-{VERSION}-py3-none-any.whl", f"allotment-{VERSION}.tgz",
        f"allotment-{VERSION}.cdx.json", f"allot-{PLATFORM}.pyz", f"kubectl-allot-{PLATFORM}.tar.gz", "allot.yaml",
        "allotment.rb", "Containerfile", "allot.bash", "allot.zsh", "allot.fish", "SHA256SUMS",
    }  # fmt: skip
    sums = dict(line.split("  ")[::-1] for line in (dist / "SHA256SUMS").read_text().splitlines())
    assert sums == {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in dist.iterdir() if file.name != "SHA256SUMS"
    }


def test_a_second_build_has_the_same_bytes(dist: Path, tmp_path: Path) -> None:
    """With other settings of the user, another time zone, and another order of sets."""
    environment = {"TZ": "Asia/Kolkata", "PYTHONHASHSEED": "7", "LC_ALL": "C", "HOME": str(tmp_path)}
    again = built_release.build(tmp_path / "dist", umask="077", **environment)
    different = [file.name for file in sorted(dist.iterdir()) if file.read_bytes() != (again / file.name).read_bytes()]
    assert different == []


def test_a_folder_with_files_is_left_alone(dist: Path) -> None:
    done = built_release.run(dist)
    assert done.returncode == 2
    assert done.stderr.endswith(f"error: --out: {dist} is not empty\n")


def test_the_sdist_builds_the_same_wheel_without_git(dist: Path, tmp_path: Path) -> None:
    with tarfile.open(dist / f"allotment-{VERSION}.tar.gz") as sdist:
        sdist.extractall(tmp_path, filter="data")
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(timestamp())}
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(command, cwd=tmp_path / f"allotment-{VERSION}", env=environment, check=True, capture_output=True)
    wheel = f"allotment-{VERSION}-py3-none-any.whl"
    assert (tmp_path / wheel).read_bytes() == (dist / wheel).read_bytes()


def test_the_chart_is_what_helm_packages(dist: Path, helm: str, tmp_path: Path) -> None:
    helm_program.run(helm, "package", CHART, "--destination", tmp_path)
    expected, found = ((folder / f"allotment-{VERSION}.tgz").read_bytes() for folder in (tmp_path, dist))
    assert list(members(found).items()) == list(members(expected).items())
    helm_program.run(helm, "lint", "--strict", dist / f"allotment-{VERSION}.tgz")


def test_the_krew_manifest_names_the_archive(dist: Path) -> None:
    manifest: dict[str, Any] = yaml.safe_load((dist / "allot.yaml").read_text())
    assert manifest["metadata"]["name"] == "allot"
    assert manifest["spec"]["version"] == f"v{VERSION}"
    assert len(manifest["spec"]["shortDescription"]) <= 50
    (platform,) = manifest["spec"]["platforms"]
    system, processor = PLATFORM.split("-")
    assert platform["selector"]["matchLabels"] == {"os": system, "arch": processor}
    assert platform["uri"] == f"{URL}/kubectl-allot-{PLATFORM}.tar.gz"
    archive = (dist / f"kubectl-allot-{PLATFORM}.tar.gz").read_bytes()
    assert platform["sha256"] == hashlib.sha256(archive).hexdigest()
    packed = members(archive)
    assert [file["from"] for file in platform["files"]] == list(packed)
    assert packed[platform["bin"]] == (0o755, (dist / f"allot-{PLATFORM}.pyz").read_bytes())


def test_the_formula_names_the_zipapp(dist: Path) -> None:
    text = (dist / "allotment.rb").read_text()
    digest = hashlib.sha256((dist / f"allot-{PLATFORM}.pyz").read_bytes()).hexdigest()
    assert f'url "{URL}/allot-{PLATFORM}.pyz", using: :nounzip\n      sha256 "{digest}"\n' in text
    assert f'version "{VERSION}"' in text
    if ruby := shutil.which("ruby"):
        subprocess.run([ruby, "-c", dist / "allotment.rb"], check=True, capture_output=True, timeout=240)


def test_the_bill_of_materials_is_valid(dist: Path) -> None:
    text = (dist / f"allotment-{VERSION}.cdx.json").read_text()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    bill = json.loads(text)
    scopes = {component["name"]: component["scope"] for component in bill["components"]}
    assert scopes["aiohttp"] == scopes["yarl"] == "required"
    assert scopes["numpy"] == "optional"
    assert scopes.keys().isdisjoint({"pytest", "mypy", "shiv"})
    required = {entry["ref"]: entry.get("dependsOn", []) for entry in bill["dependencies"]}
    of_aiohttp = next(refs for ref, refs in required.items() if ref.startswith("pkg:pypi/aiohttp@"))
    assert any(ref.startswith("pkg:pypi/yarl@") for ref in of_aiohttp)
    assert any(ref.startswith("pkg:pypi/aiohttp@") for ref in required[f"pkg:pypi/allotment@{VERSION}"])


def test_the_locked_releases_of_a_plain_installation() -> None:
    names = {release.name for release in installed_with()}
    assert {"aiohttp", "google-re2", "msgspec", "pyyaml", "yarl", "multidict", "attrs"} <= names
    assert names.isdisjoint({"pytest", "cryptography", "numpy", "ruff"})


def test_the_containerfile_installs_the_wheel(dist: Path) -> None:
    text = (dist / "Containerfile").read_text()
    wheel = f"allotment-{VERSION}-py3-none-any.whl"
    assert f"\nCOPY {wheel} ./\n" in text
    assert re.findall(r'"(\./.*?)\[\$\{EXTRAS\}\]"', text) == [f"./{wheel}"]
    assert f"# Image of Allotment: podman build -t localhost/allotment:{VERSION} .\n" in text
    if program := shutil.which("hadolint", path=str(Path(sys.executable).parent)) or shutil.which("hadolint"):
        done = subprocess.run(
            [program, dist / "Containerfile"], capture_output=True, text=True, check=False, timeout=240
        )
        assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_scripts_are_those_of_the_command(dist: Path, shell: str) -> None:
    command = [sys.executable, "-m", "allotment.cli.main", "completion", shell]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=240).stdout
    assert (dist / f"allot.{shell}").read_text() == printed
