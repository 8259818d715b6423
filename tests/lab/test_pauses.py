"""A whole lab that is paused, and one that starts on the data that a pause left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import allotment
from allotment.cluster.resources import LEASES, NODES, PODS
from allotment.model.trees import Tree
from tests.polling import wait_until

NODE = "t4-4x-pcie-1"
UNREACHABLE = "node.kubernetes.io/unreachable"
#: A lab with a short grace period of nodes; it runs until its input ends.
LAB = """
import sys
import allotment
from allotment.controllers import node_lifecycle
from allotment.node import leases

leases._PERIOD = 0.5
node_lifecycle._GRACE_SECONDS = 3.0
with allotment.Lab("t4-4x-pcie", without=["drivers"]) as lab:
    print(lab.url, flush=True)
    sys.stdin.read()
"""
PAUSE = 6.0


def pod(name: str, seconds: int) -> Tree:
    """A pod that tolerates an unreachable node for this long."""
    toleration = {"key": UNREACHABLE, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}
    container = {"name": "main", "image": "busybox", "command": ["sleep", "infinity"]}
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [container], "tolerations": [toleration]},
    }  # fmt: skip


def ready(tree: Tree) -> str:
    conditions = (tree.get("status") or {}).get("conditions") or ()
    return next((str(condition["status"]) for condition in conditions if condition["type"] == "Ready"), "")


def renew_time(lab: allotment.Lab) -> str:
    return str(lab.client.get(LEASES, NODE, "kube-node-lease")["spec"]["renewTime"])


def test_a_paused_lab_continues_as_before() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", LAB], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        url = process.stdout.readline().strip()

        def call(path: str, body: Tree | None = None) -> Tree:
            data = json.dumps(body).encode() if body else None
            request = urllib.request.Request(url + path, data, {"content-type": "application/json"})
            with urllib.request.urlopen(request, timeout=120) as answer:
                found: Tree = json.load(answer)
            return found

        def renewed() -> str:
            lease = call(f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{NODE}")
            return str(lease["spec"]["renewTime"])

        try:
            call("/api/v1/namespaces/default/pods", pod("p", 2))
            wait_until(lambda: ready(call("/api/v1/namespaces/default/pods/p")) == "True")
            before = renewed()
            os.kill(process.pid, signal.SIGSTOP)
            time.sleep(PAUSE)
            os.kill(process.pid, signal.SIGCONT)
            wait_until(lambda: renewed() != before)
            end = time.monotonic() + PAUSE
            while time.monotonic() < end:
                node = call(f"/api/v1/nodes/{NODE}")
                assert (ready(node), node["spec"].get("taints")) == ("True", None)
                assert "deletionTimestamp" not in call("/api/v1/namespaces/default/pods/p")["metadata"]
                time.sleep(0.1)
            events = call("/api/v1/events")["items"]
            assert not {event["reason"] for event in events} & {"NodeNotReady", "TaintManagerEviction"}
        finally:
            process.stdin.close()
    assert process.returncode == 0


def test_a_lab_on_the_data_of_one_with_lost_nodes_recovers_them(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with allotment.Lab("t4-4x-pcie", data=data) as lab:
        lab.apply(pod("p", 300))
        [before] = lab.wait("pod/p")
        renewed = renew_time(lab)
    # As the node lifecycle controller leaves them after a pause.
    with allotment.Lab(data=data, without=["kubelets", "node-lifecycle"]) as lab:
        node = lab.get("node", NODE)
        lost = {"status": "Unknown", "reason": "NodeStatusUnknown"}
        conditions = [{**condition, **lost} for condition in node["status"]["conditions"]]
        node = lab.client.update(
            NODES, {**node, "status": {**node["status"], "conditions": conditions}}, subresource="status"
        )
        taints = [{"key": UNREACHABLE, "effect": effect} for effect in ("NoSchedule", "NoExecute")]
        lab.client.update(NODES, {**node, "spec": {**node["spec"], "taints": taints}})
        tree = lab.get("pod", "p")
        conditions = [
            {**condition, "status": "False", "reason": "NodeNotReady"} if condition["type"] == "Ready" else condition
            for condition in tree["status"]["conditions"]
        ]
        lab.client.update(PODS, {**tree, "status": {**tree["status"], "conditions": conditions}}, subresource="status")
    with allotment.Lab(data=data, speed=20) as lab:  # five minutes are fifteen seconds
        wait_until(lambda: ready(lab.get("node", NODE)) == "True")
        wait_until(lambda: not lab.get("node", NODE)["spec"].get("taints"))
        [after] = lab.wait("pod/p")
        assert after["metadata"]["uid"] == before["metadata"]["uid"]
        assert renew_time(lab) > renewed
