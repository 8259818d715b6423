"""``allot envtest`` accepts the arguments of setup-envtest, and creates programs that the shell starts."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Allot


def test_the_folder_contains_the_programs_that_envtest_starts(allot: Allot, tmp_path: Path) -> None:
    ran = allot("envtest", "use", "1.36.x", "--bin-dir", str(tmp_path), "-p", "path")
    folder = Path(ran.out.strip())
    assert (ran.code, ran.err) == (0, "")
    assert folder.parent == tmp_path / "k8s"
    assert folder.name.startswith("1.36.")
    assert sorted(path.name for path in folder.iterdir()) == ["etcd", "kube-apiserver", "kubectl"]
    assert all(os.access(path, os.X_OK) for path in folder.iterdir())


def test_the_folder_can_be_printed_as_a_command(allot: Allot, tmp_path: Path) -> None:
    path = allot("envtest", "--bin-dir", str(tmp_path)).out.strip()
    assert allot("envtest", "--bin-dir", str(tmp_path), "-p", "env").out == f"export KUBEBUILDER_ASSETS={path}\n"


@pytest.mark.parametrize("words", [(), ("use",), ("use", "latest"), ("1.37",), ("use", "1.37.0"), ("use", "~1.37.1")])
def test_versions_are_selected_as_by_setup_envtest(allot: Allot, tmp_path: Path, words: tuple[str, ...]) -> None:
    ran = allot("envtest", *words, "--bin-dir", str(tmp_path))
    assert Path(ran.out.strip()).name.startswith("1.37."), ran.err


@pytest.mark.parametrize("version", ["1.20", "1.99.x", "2.0", "newest"])
def test_a_version_that_no_lab_has_is_refused(allot: Allot, tmp_path: Path, version: str) -> None:
    ran = allot("envtest", "use", version, "--bin-dir", str(tmp_path))
    assert ran.code == 2
    assert "expected one of 1.34, 1.35, 1.36, 1.37" in ran.err
    assert not list(tmp_path.iterdir())


def test_programs_of_others_in_the_directory_are_kept(allot: Allot, tmp_path: Path) -> None:
    real = tmp_path / "k8s" / "1.37.2-linux-amd64"
    real.mkdir(parents=True)
    (real / "etcd").write_text("real")
    allot("envtest", "--bin-dir", str(tmp_path))
    assert (real / "etcd").read_text() == "real"


def test_kubectl_is_the_one_on_the_path(allot: Allot, tmp_path: Path) -> None:
    folder = Path(allot("envtest", "--bin-dir", str(tmp_path)).out.strip())
    own = tmp_path / "own"
    own.mkdir()
    (own / "kubectl").write_text('#!/bin/sh\necho own "$@"\n')
    (own / "kubectl").chmod(0o755)

    def run(path: str) -> tuple[int, str]:
        done = subprocess.run(
            [folder / "kubectl", "get", "a b"], env={"PATH": path}, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout + done.stderr

    assert run(f"{folder}:{own}") == (0, "own get a b\n")
    assert run(str(folder)) == (127, "kubectl: not found on the PATH\n")
