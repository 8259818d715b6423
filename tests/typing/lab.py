"""A test on a lab, as type checkers see it; ``type: ignore`` marks what they must reject."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, assert_type

import allotment


def test_on_a_lab() -> None:
    with allotment.Lab("t4-4x-pcie", kube="1.36", gates={"DRAPartitionableDevices": False}) as lab:
        assert_type(lab, allotment.Lab)
        assert_type(lab.apply("app.yaml"), list[dict[str, Any]])
        lab.apply(allotment.load("app.yaml"))
        assert_type(lab.wait("pod/train", timeout=10), list[dict[str, Any]])
        assert_type(lab.get("pod", "train", namespace="ml"), dict[str, Any])
        assert_type(lab.list("pods", labels="app=llm"), Sequence[dict[str, Any]])
        assert_type(lab.kubeconfig, Path)
        client = lab.client_for("system:serviceaccount:gpu:operator")
        assert_type(client.get(lab.resource("pod"), "train", "default"), dict[str, Any])
        assert_type(allotment.explain(cluster=allotment.Cluster.lab(lab)), allotment.Explanation)
        lab.wait("pod/train", until=3)  # type: ignore[arg-type]


def test_errors(lab: allotment.Lab) -> None:
    try:
        lab.get("pod", "train")
    except allotment.StatusError as error:
        assert_type((error.code, error.reason), tuple[int, str])
    except (allotment.NotApplied, allotment.UnknownKind):
        pass
