"""kubectl finds the plugin and runs it: ``kubectl allot explain pod/x``."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from tests.clients.conftest import Run
from tests.clients.test_kubectl import POD, TEMPLATE


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A search path that contains the plugin, as pip installs it."""
    script = tmp_path / "kubectl-allot"
    script.write_text(f"#!{sys.executable}\nimport sys\nfrom allotment.cli.main import main\nsys.exit(main())\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return f"{tmp_path}{os.pathsep}{os.environ['PATH']}"


def test_kubectl_knows_the_plugin(kubectl: Run, path: str) -> None:
    assert "kubectl-allot" in kubectl("plugin", "list", PATH=path, fails=True).out
    assert kubectl("allot", "--help", PATH=path).out.startswith("usage: kubectl allot ")


def test_the_plugin_explains_a_pod_of_the_current_context(kubectl: Run, path: str) -> None:
    kubectl("create", "namespace", "plugin")
    try:
        kubectl("-n", "plugin", "apply", "-f", "-", input=f"{TEMPLATE}---\n{POD}")
        kubectl("-n", "plugin", "wait", "--for=condition=Ready", "pod/train", "--timeout=200s")
        result = kubectl("allot", "explain", "pod/train", "-n", "plugin", PATH=path)
        assert "plugin/train" in result.out
        assert result.err == "", "the output mentions neither the lab nor the context"
        ran = kubectl("allot", "explain", "pod/none", "-n", "plugin", PATH=path, fails=True)
        assert (ran.code, "no pod" in ran.err) == (2, True), ran
    finally:
        kubectl("delete", "namespace", "plugin", "--wait=false")
