"""An autoscaler in a lab: claims that no node can serve lead to machines of the catalogue, on which the pods run."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from pathlib import Path
from random import Random
from typing import Any

import pytest

from allotment.autoscaler.options import NAME
from allotment.autoscaler.program import autoscaler
from allotment.autoscaler.providers.faults import parse_faults
from allotment.autoscaler.providers.simulated import NAME as CLOUD
from allotment.cluster.caches import Caches
from allotment.cluster.client import Client
from allotment.cluster.program import ProgramContext, run
from allotment.cluster.recorder import Events
from allotment.fleet.catalog import catalog
from allotment.fleet.device_classes import CLASSES
from allotment.lab.autoscaling import Autoscale, types_of
from allotment.lab.lab import Lab
from allotment.model.features import Features
from allotment.model.trees import Tree, to_tree
from allotment.permissions.components import COMPONENTS
from allotment.permissions.roles import manifests
from tests.lab.autoscaled_pods import wait_for_lab, wait_for_running

EXAMPLES = Path(__file__).parents[2] / "src" / "allotment" / "examples"
PRICES = {instance.key: instance.price("on-demand") for instance in catalog()}
SPEED = 20.0


def autoscaler_settings(*faults: str, catalog: str = "aws,gcp", **more: Any) -> Autoscale:
    chosen = {"plan_seconds": inf, "consolidation": "never", **more}
    return Autoscale(types_of(catalog.split(",")), parse_faults(faults), **chosen)


@contextmanager
def lab(*faults: str, speed: float = SPEED, **more: Any) -> Iterator[Lab]:
    with Lab(fleet="", autoscale=autoscaler_settings(*faults, **more), speed=speed) as running:
        yield running


def is_ready(pod: Tree) -> bool:
    conditions = pod["status"].get("conditions") or ()
    return "deletionTimestamp" not in pod["metadata"] and any(
        condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions
    )


def machines(lab: Lab) -> dict[str, str]:
    """The hardware by node."""
    return {
        item["metadata"]["name"]: item["metadata"]["annotations"].get("allotment.dev/hardware", "")
        for item in lab.list("nodes")
    }


def event_messages(lab: Lab, reason: str) -> list[str]:
    return [item.get("message") or item.get("note") or "" for item in lab.list("events") if item["reason"] == reason]


def one_gpu(name: str = "trainer", replicas: int = 1) -> list[Tree]:
    """A Deployment whose pods request one GPU each."""
    requests = [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]
    container = {"name": "c", "image": "registry.example/app:1", "resources": {"claims": [{"name": "gpu"}]}}
    spec = {"containers": [container], "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": name}]}
    return [
        {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": name},
         "spec": {"spec": {"devices": {"requests": requests}}}},
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
         "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}},
                  "template": {"metadata": {"labels": {"app": name}}, "spec": spec}}},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("example", "pods", "catalog", "type_", "form"),
    [
        ("01-one-ampere-gpu.yaml", 1, "aws", "g5-xlarge", "a10g"),
        ("01-one-ampere-gpu.yaml", 1, "gcp", "a2-highgpu-1g", "a100-40gb"),
        ("02-time-slicing.yaml", 3, "aws,gcp", "g5-xlarge", "a10g"),
        ("03-mps.yaml", 3, "aws,gcp", "g5-xlarge", "a10g"),
        ("04-seven-mig-slices.yaml", 7, "aws,gcp", "a2-highgpu-1g", "a100-40gb/static-mig=1g.5gb:7"),
    ],
)
def test_the_articles_examples_run_on_the_planned_node(
    example: str, pods: int, catalog: str, type_: str, form: str
) -> None:
    with lab(catalog=catalog) as running_lab:
        running_lab.apply(EXAMPLES / example)
        found = wait_for_running(running_lab, pods)
        ((node, hardware),) = machines(running_lab).items()
        assert hardware == form
        assert node.startswith(type_)
        assert {pod["spec"]["nodeName"] for pod in found} == {node}
        texts = wait_for_lab(lambda: event_messages(running_lab, "TriggeredScaleUp"), running_lab)
        assert all(f"as node {node}" in text for text in texts)
        report = running_lab.get("configmap", "allotment-autoscaler-report", namespace="kube-system")
        assert type_.partition("-")[0] in report["data"]["summary"]


def test_the_node_has_the_allocatable_resources_of_its_type() -> None:
    with lab(catalog="aws") as cluster:
        cluster.apply(EXAMPLES / "01-one-ampere-gpu.yaml")
        wait_for_running(cluster, 1)
        (node,) = cluster.list("nodes")
        assert node["status"]["allocatable"]["cpu"] == "3920m"
        assert node["metadata"]["labels"]["node.kubernetes.io/instance-type"] == "g5.xlarge"
        assert node["metadata"]["labels"]["topology.kubernetes.io/zone"] == "us-east-1a"


def test_the_next_cheapest_type_is_ordered_when_one_is_out_of_stock() -> None:
    with lab("aws/g5.xlarge=no-capacity", catalog="aws") as cluster:
        cluster.apply(EXAMPLES / "01-one-ampere-gpu.yaml")
        (pod,) = wait_for_running(cluster, 1)
        assert pod["spec"]["nodeName"].startswith("g5-2xlarge")
        wait_for_lab(lambda: any("out of stock" in text for text in event_messages(cluster, "FailedScaleUp")), cluster)


def test_machines_that_are_ready_one_by_one_serve_the_pods_they_were_ordered_for() -> None:
    """One pod accepts any GPU, and its machine is slow; the other needs the GPU that is available first."""
    ampere = one_gpu("ampere")
    request = ampere[0]["spec"]["spec"]["devices"]["requests"][0]["exactly"]
    request["selectors"] = [{"cel": {"expression": 'device.attributes["gpu.nvidia.com"].architecture == "Ampere"'}}]
    with lab("aws/g4dn.*=slow:20", catalog="aws") as cluster:
        cluster.apply([*one_gpu("any"), *ampere])
        pods = {pod["metadata"]["labels"]["app"]: pod["spec"]["nodeName"] for pod in wait_for_running(cluster, 2)}
        assert pods["any"].startswith("g4dn-xlarge")
        assert pods["ampere"].startswith("g5-xlarge")
        assert set(machines(cluster)) == set(pods.values())


def test_all_pods_run_although_half_of_the_cloud_calls_fail() -> None:
    with lab("*=fail:50%", catalog="aws", shortage=5.0, speed=40.0) as cluster:
        cluster.apply(one_gpu(replicas=6))
        pods = wait_for_running(cluster, 6)
        assert {pod["spec"]["nodeName"] for pod in pods} <= set(machines(cluster))


def test_a_machine_whose_devices_are_never_published_is_deleted_and_replaced() -> None:
    with lab("aws/g4dn.xlarge=bare", catalog="aws", registration=100.0) as cluster:
        cluster.apply(one_gpu())
        (pod,) = wait_for_running(cluster, 1)
        assert not pod["spec"]["nodeName"].startswith("g4dn-xlarge")
        assert list(machines(cluster)) == [pod["spec"]["nodeName"]]
        wait_for_lab(
            lambda: any("complete pools after 100 s" in text for text in event_messages(cluster, "FailedScaleUp")),
            cluster,
        )


def test_deleting_the_pods_deletes_the_node() -> None:
    with lab(catalog="aws", consolidation="empty", consolidate_after=20.0) as cluster:
        objects = cluster.apply(one_gpu())
        wait_for_running(cluster, 1)
        for tree in reversed(objects):
            cluster.delete(tree["kind"], tree["metadata"]["name"])
        wait_for_lab(lambda: not machines(cluster), cluster)
        maps = cluster.list("configmaps", namespace="kube-system")
        assert not [
            config_map for config_map in maps if config_map["metadata"]["name"].startswith(("order-", "machine-"))
        ]


def test_pods_move_to_cheaper_machines_but_not_against_their_budget() -> None:
    """A node for four GPUs is left with two pods of another workload: two small nodes are cheaper, once a budget allows
    the move, even of one pod at a time."""
    spec = {"minAvailable": 2, "selector": {"matchLabels": {"app": "trainer"}}}
    metadata = {"name": "trainer"}
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec}
    big = one_gpu("big")
    big[0]["spec"]["spec"]["devices"]["requests"][0]["exactly"]["count"] = 4
    with lab(catalog="aws", consolidation="cheaper", consolidate_after=30.0, budget="100%") as cluster:
        cluster.apply(big)
        (pod,) = wait_for_running(cluster, 1)
        dear = pod["spec"]["nodeName"]
        assert dear.startswith("g4dn-12xlarge")
        cluster.delete("deployment", "big")
        wait_for_lab(lambda: not cluster.list("pods"), cluster)
        cluster.apply(budget)
        cluster.apply(one_gpu(replicas=2))
        assert {pod["spec"]["nodeName"] for pod in wait_for_running(cluster, 2)} == {dear}
        time.sleep(90 / SPEED)
        assert set(machines(cluster)) == {dear}
        cluster.apply({**budget, "spec": {**spec, "minAvailable": 1}})
        fewest = 2

        def moved() -> bool:
            nonlocal fewest
            fewest = min(fewest, sum(map(is_ready, cluster.list("pods"))))
            return dear not in machines(cluster)

        wait_for_lab(moved, cluster)
        assert fewest >= 1
        pods = wait_for_running(cluster, 2)
        assert {pod["spec"]["nodeName"] for pod in pods} == set(machines(cluster))
        assert all(name.startswith("g4dn-xlarge") for name in machines(cluster))


def test_a_dry_run_changes_nothing() -> None:
    with lab(catalog="aws", dry_run=True) as cluster:
        cluster.apply(one_gpu())
        wait_for_lab(lambda: event_messages(cluster, "ProposedScaleUp"), cluster)
        time.sleep(10 / SPEED)
        assert machines(cluster) == {}
        maps = {item["metadata"]["name"]: item for item in cluster.list("configmaps", namespace="kube-system")}
        assert not [name for name in maps if name.startswith(("order-", "machine-"))]
        assert "dry run" in maps["allotment-autoscaler-report"]["data"]["summary"]


def test_a_claim_that_no_type_can_serve_is_reported_and_the_others_are_served() -> None:
    impossible = one_gpu("impossible")
    request = impossible[0]["spec"]["spec"]["devices"]["requests"][0]["exactly"]
    request["selectors"] = [
        {"cel": {"expression": 'device.capacity["gpu.nvidia.com"].memory.isGreaterThan(quantity("4000Gi"))'}}
    ]
    with lab(catalog="aws") as cluster:
        cluster.apply([*impossible, *one_gpu()])
        wait_for_running(cluster, 1)
        wait_for_lab(lambda: event_messages(cluster, "NotTriggerScaleUp"), cluster)
        assert len(machines(cluster)) == 1


def test_no_machine_is_lost_or_ordered_twice_when_the_autoscaler_is_killed(tmp_path: Path) -> None:
    """The command on a lab, killed by SIGKILL during its work."""
    with Lab(fleet="", speed=1.0) as cluster:
        cluster.apply([to_tree(known, "resource.k8s.io/v1", "DeviceClass") for known in CLASSES["nvidia"]])
        cluster.apply(one_gpu(replicas=4))
        arguments = [
            sys.executable, "-m", "allotment.cli.main", "autoscale", "--provider", "simulated", "--catalog", "aws",
            "--kubeconfig", str(cluster.kubeconfig), "--time-limit", "0.5", "--batch-idle-duration", "0.2s",
            "--provisioning-delay", "1s",
            "--consolidate", "never",
        ]  # fmt: skip
        log = tmp_path / "log"
        for timeout in (0.0, 0.15, 0.4):
            with log.open("ab") as output:
                process = subprocess.Popen(arguments, stdout=output, stderr=output)
            try:
                assert wait_for_orders(cluster, process, 120.0), log.read_text()
                time.sleep(timeout)
            finally:
                os.kill(process.pid, signal.SIGKILL)
                process.wait()
        with log.open("ab") as output:
            process = subprocess.Popen(arguments, stdout=output, stderr=output)
        try:
            pods = wait_for_running(cluster, 4)
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(120) == 0, log.read_text()
        nodes = machines(cluster)
        assert len(nodes) == len({pod["spec"]["nodeName"] for pod in pods}) == len(maps(cluster, "machine-"))
        assert set(nodes) == set(maps(cluster, "order-"))
        assert "Stopped. Ordered machines remain, and the next run continues with them." in log.read_text()


def test_the_autoscalers_permissions_suffice(caplog: pytest.LogCaptureFixture) -> None:
    """With its own permissions; the cloud is simulated by the administrator."""
    with Lab(fleet="", speed=SPEED) as cluster:
        cluster.apply(manifests(COMPONENTS["autoscaler"], account=NAME))
        cluster.apply([to_tree(known, "resource.k8s.io/v1", "DeviceClass") for known in CLASSES["nvidia"]])
        objects = cluster.apply(one_gpu(replicas=2))
        chosen = autoscaler_settings(catalog="aws", consolidation="empty", consolidate_after=5.0, budget="100%")
        options = chosen.options(Features(kube="1.36"))
        plane = cluster.plane

        def client_for(name: str, manager: str = "") -> Client:
            own = plane.client(f"system:serviceaccount:kube-system:{NAME}", ())
            return plane.client() if name == CLOUD else own

        async def begin() -> asyncio.Task[None]:
            client = client_for(NAME)
            caches = Caches(client, clock=plane.clock, random=Random(1))
            context = ProgramContext(client_for, caches, plane.clock, Events(client, clock=plane.clock), Random(1))
            return asyncio.create_task(run({NAME: autoscaler(options)}, context))

        async def end(task: asyncio.Task[None]) -> None:
            task.cancel()
            await asyncio.wait((task,))

        task = cluster._loop.wait(begin())
        try:
            wait_for_running(cluster, 2)
            wait_for_lab(lambda: len(event_messages(cluster, "TriggeredScaleUp")) == 2, cluster)
            for tree in reversed(objects):
                cluster.delete(tree["kind"], tree["metadata"]["name"])
            wait_for_lab(lambda: not machines(cluster), cluster)
        finally:
            cluster._loop.wait(end(task))
    refused = [record.getMessage() for record in caplog.records if "forbidden" in record.getMessage()]
    assert refused == []


def wait_for_orders(lab: Lab, process: subprocess.Popen[bytes], seconds: float) -> list[str]:
    end = time.monotonic() + seconds
    while time.monotonic() < end and process.poll() is None:
        if found := maps(lab, "order-"):
            return found
        time.sleep(0.005)
    return []


def maps(lab: Lab, prefix: str) -> list[str]:
    found = lab.list("configmaps", namespace="kube-system")
    return [name.removeprefix(prefix) for item in found if (name := item["metadata"]["name"]).startswith(prefix)]


def run_once(cluster: Lab, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "allotment.cli.main", "autoscale", "--once", "--catalog", "aws"]
    command += ["--time-limit", "0.5", "--kubeconfig", str(cluster.kubeconfig), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_once_reports_orders_and_failures() -> None:
    impossible = one_gpu("impossible")
    request = impossible[0]["spec"]["spec"]["devices"]["requests"][0]["exactly"]
    request["selectors"] = [
        {"cel": {"expression": 'device.capacity["gpu.nvidia.com"].memory.isGreaterThan(quantity("4000Gi"))'}}
    ]
    with Lab(fleet="", speed=1.0) as cluster:
        cluster.apply([to_tree(known, "resource.k8s.io/v1", "DeviceClass") for known in CLASSES["nvidia"]])
        cluster.apply([*one_gpu(), *impossible])
        wait_for_lab(lambda: len(event_messages(cluster, "FailedScheduling")) == 2, cluster)
        done = run_once(cluster, "--provider", "simulated", "--dry-run")
        assert done.returncode == 1, done.stdout + done.stderr
        assert "would order aws/g4dn.xlarge (on-demand, us-east-1a, 0.526 USD/h) for default/trainer-" in done.stdout
        assert "; the nearest type is aws/" in done.stdout
        assert "has 27" in done.stdout  # GiB of the largest device
        done = run_once(cluster, "--provider", "karpenter")
        assert (done.returncode, maps(cluster, "order-")) == (2, [])
        assert "Karpenter is not installed" in done.stderr
        assert "ordered" not in done.stdout
        done = run_once(cluster, "--provider", "simulated", "--cloud-fault", "*=refused")
        assert done.returncode == 1
        assert "\nordered" not in done.stdout
        assert (
            "no suitable machine was available; see the events of the pod" in done.stdout
            or "out of stock" in done.stdout
        )


def test_pods_collect_few_events_while_machines_are_added() -> None:
    """An event for each change of a count would be three for each pod."""
    with Lab(fleet="dgx-a100-40gb", autoscale=autoscaler_settings(catalog="aws"), speed=SPEED) as cluster:
        cluster.apply([tree for number in range(3) for tree in one_gpu(f"d{number}", 19)])
        wait_for_running(cluster, 57)
        codes: dict[str, list[str]] = {}
        for event in cluster.list("events"):
            if event["reason"] == "FailedScheduling":
                about = event.get("involvedObject") or event["regarding"]
                first = str(event.get("message") or event.get("note")).splitlines()[0]
                codes.setdefault(about["name"], []).append(first.rpartition(" ")[2])
        most = max((found.count(code) for found in codes.values() for code in found), default=0)
        assert most <= 2
        assert sum(map(len, codes.values())) <= 2 * 57
