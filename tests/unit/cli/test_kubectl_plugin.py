"""As ``kubectl-allot``, output and options follow kubectl's conventions."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from pathlib import Path

import pytest

from allotment.cli.live.connection import way_to
from tests.unit.cli.conftest import Allot


@pytest.fixture(params=["kubectl-allot", "kubectl-allot.exe", "kubectl_complete-allot"])
def _as_plugin(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [f"/usr/local/bin/{request.param}"])


@pytest.mark.usefixtures("_as_plugin")
def test_help_shows_examples(allot: Allot) -> None:
    for words in ((), ("rbac",), ("explain",), ("autoscale",)):
        text = allot(*words, "--help").out
        assert text.startswith("usage: kubectl allot ")
        assert not [line for line in text.splitlines() if line.startswith("  allot ")]
    lines = allot("rbac", "--help").out.splitlines()
    assert "  kubectl allot rbac             permissions of the read-only tools" in lines


@pytest.mark.usefixtures("_as_plugin")
def test_plugin_uses_current_context_despite_a_lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    servers = {"production": "https://p:1", "allotment": "https://l:2"}
    config = {
        "kind": "Config", "current-context": "production",
        "clusters": [{"name": name, "cluster": {"server": server}} for name, server in servers.items()],
        "contexts": [{"name": name, "context": {"cluster": name}} for name in servers],
    }  # fmt: skip
    path = tmp_path / "config"
    path.write_text(json.dumps(config))
    monkeypatch.setenv("KUBECONFIG", str(path))
    assert way_to(Namespace(context=None, kubeconfig=None)).server == "https://p:1"
    assert way_to(Namespace(context="allotment", kubeconfig=None)).server == "https://l:2"


def test_called_by_its_own_name_it_is_allot(allot: Allot) -> None:
    assert allot("rbac", "--help").out.startswith("usage: allot rbac ")
