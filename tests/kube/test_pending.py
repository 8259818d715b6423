"""``docs/pending.md``: its commands on the real control plane print what the page shows.

``python -m tests.kube.test_pending`` writes the page anew.
"""

from __future__ import annotations

import os
import time
from typing import Final

import pytest
import yaml

from allotment.model.trees import Tree
from bench.kube_programs import programs
from bench.real_kube import ApiServer, plane
from tests.docs import screens
from tests.kube.world import create

PAGE: Final = screens.ROOT / "docs" / "pending.md"
#: The machines of which the page tells.
_FLEET: Final = "a100-1=dgx-a100-40gb,t4-1=t4-4x-pcie"
_PATIENCE: Final = 300.0
_JOB_PODS: Final = "/api/v1/namespaces/default/pods?labelSelector=job-name%3Dtrain"


def page_anew(kube: ApiServer, text: str) -> str:
    """The page with every screen as it is now."""
    for tree in yaml.safe_load_all("\n".join(screens.run(f"allot fleet slices {_FLEET} --all"))):
        if tree["kind"] == "Node":
            room = {"cpu": "64", "memory": "512Gi", "pods": "110"}
            ready = [{"type": "Ready", "status": "True", "reason": "KubeletReady", "lastTransitionTime": _long_ago()}]
            tree["status"] = {"allocatable": room, "capacity": room, "conditions": ready}
        create(kube, tree)
        if tree["kind"] == "Node":  # where a kubelet is, the controller takes the taint away
            code, answer = kube.ask("PATCH", f"/api/v1/nodes/{tree['metadata']['name']}", {"spec": {"taints": None}})
            assert code == 200, answer

    def trained() -> None:
        """The scheduler has been through with what the page applied."""
        until = time.monotonic() + _PATIENCE
        while not all(map(_tried, pods := kube.ask("GET", _JOB_PODS)[1]["items"])) or len(pods) < 4:
            assert time.monotonic() < until, pods
            time.sleep(0.1)

    return screens.page_anew(text, kubeconfig=kube.kubeconfig, before={"allot doctor": trained})


def _tried(pod: Tree) -> bool:
    return any(one["type"] == "PodScheduled" for one in pod["status"].get("conditions") or ())


def _long_ago() -> str:
    return "2026-01-01T00:00:00Z"


def test_the_page_shows_what_happens(kube: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = PAGE.read_text(encoding="utf-8")
    if missing := screens.clients_of(text):
        pytest.skip(f"{' and '.join(sorted(missing))} not there: `make clients` brings them")
    told = "out of date; `python -m tests.kube.test_pending` writes it anew"
    assert page_anew(kube, text) == text, f"{PAGE.name} is {told}"


if __name__ == "__main__":
    os.environ["COLUMNS"] = "80"
    found = programs()
    assert found is not None
    with plane(found) as running:
        PAGE.write_text(page_anew(running, PAGE.read_text(encoding="utf-8")), encoding="utf-8")
