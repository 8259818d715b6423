"""``docs/how-to/pending.md``: its commands on a real control plane print the output that the page shows.

``python -m tests.kube.test_pending`` updates the page.
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
from tests.kube.objects import create

PAGE: Final = screens.ROOT / "docs" / "how-to" / "pending.md"
#: The machines that the page describes.
_FLEET: Final = "a100-1=dgx-a100-40gb,t4-1=t4-4x-pcie"
_TIMEOUT_SECONDS: Final = 300.0
_JOB_PODS: Final = "/api/v1/namespaces/default/pods?labelSelector=job-name%3Dtrain"


def updated_page(kube: ApiServer, text: str) -> str:
    """The page with the current output of every command."""
    for tree in yaml.safe_load_all("\n".join(screens.run(f"allot fleet slices {_FLEET} --all"))):
        if tree["kind"] == "Node":
            room = {"cpu": "64", "memory": "512Gi", "pods": "110"}
            ready = [
                {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastTransitionTime": _earlier_time()}
            ]
            tree["status"] = {"allocatable": room, "capacity": room, "conditions": ready}
        create(kube, tree)
        if tree["kind"] == "Node":  # with a kubelet, the node lifecycle controller removes the taint
            code, answer = kube.send_request(
                "PATCH", f"/api/v1/nodes/{tree['metadata']['name']}", {"spec": {"taints": None}}
            )
            assert code == 200, answer

    def trained() -> None:
        """Wait until the scheduler has tried the pods that the page created."""
        until = time.monotonic() + _TIMEOUT_SECONDS
        while not all(map(_is_tried, pods := kube.send_request("GET", _JOB_PODS)[1]["items"])) or len(pods) < 4:
            assert time.monotonic() < until, pods
            time.sleep(0.1)

    return screens.updated_page(text, kubeconfig=kube.kubeconfig, before={"allot doctor": trained})


def _is_tried(pod: Tree) -> bool:
    return any(condition["type"] == "PodScheduled" for condition in pod["status"].get("conditions") or ())


def _earlier_time() -> str:
    return "2026-01-01T00:00:00Z"


def test_the_page_shows_what_happens(kube: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = PAGE.read_text(encoding="utf-8")
    if missing := screens.clients_of(text):
        pytest.skip(f"{' and '.join(sorted(missing))} not found: `make clients` installs them")
    hint = "out of date; `python -m tests.kube.test_pending` updates it"
    assert updated_page(kube, text) == text, f"{PAGE.name} is {hint}"


if __name__ == "__main__":
    os.environ["COLUMNS"] = "80"
    found = programs()
    assert found is not None
    with plane(found) as running:
        PAGE.write_text(updated_page(running, PAGE.read_text(encoding="utf-8")), encoding="utf-8")
