"""kubectl completes the plugin's words: ``kubectl allot expl<TAB>`` runs ``kubectl_complete-allot``."""

from __future__ import annotations

import os
import stat
import sys
import time
from pathlib import Path

import pytest

from tests.clients.conftest import Run
from tests.clients.test_kubectl import POD, TEMPLATE

_SCRIPTS = {"kubectl-allot": "main", "kubectl_complete-allot": "complete"}


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A search path that contains both programs, as pip installs them."""
    for name, function in _SCRIPTS.items():
        script = tmp_path / name
        script.write_text(
            f"#!{sys.executable}\nimport sys\nfrom allotment.cli.main import {function}\nsys.exit({function}())\n"
        )
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return f"{tmp_path}{os.pathsep}{os.environ['PATH']}"


def test_commands_options_and_values(kubectl: Run, path: str) -> None:
    def offered(*words: str) -> list[str]:
        return kubectl("__complete", "allot", *words, PATH=path).out.splitlines()

    assert offered("expl") == ["explain\tshow which devices a pod or claim gets, or why it gets none", ":4"]
    assert offered("free", "--fleet", "dgx-1") == ["dgx-1-v100\tDGX-1 with eight V100 in a hybrid cube mesh", ":4"]
    assert offered("free", "--output=j") == ["json", ":4"]
    assert offered("check", "") == [":0"], "files"
    assert offered("up", "--data-dir", "") == [":16"], "folders"
    assert offered("nothing", "") == [":4"]


def test_objects_of_the_current_context(kubectl: Run, path: str) -> None:
    kubectl("create", "namespace", "completion")
    try:
        kubectl("-n", "completion", "apply", "-f", "-", input=f"{TEMPLATE}---\n{POD}")
        deadline = time.monotonic() + 60
        # On a loaded machine the answer may miss the one-second limit of completion; users press TAB again.
        while (
            output := kubectl("__complete", "allot", "explain", "-n", "completion", "pod/", PATH=path).out
        ) == ":4\n":
            assert time.monotonic() < deadline
        assert output == "pod/train\tin completion\n:4\n"
    finally:
        kubectl("delete", "namespace", "completion", "--wait=false")
