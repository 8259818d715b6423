"""Autoscalers on kube-controller-manager: it decides as the controller of a lab, in the same words."""

from __future__ import annotations

import asyncio

import pytest

from allotment.cluster.client import Client, Resource
from allotment.cluster.remote.http_client import HttpClient
from allotment.cluster.remote.kubeconfig import target
from allotment.cluster.resources import CUSTOM_KINDS, PODS
from allotment.lab.control_plane import running
from allotment.lab.programs import NAMES
from allotment.lab.settings import Settings
from allotment.model.features import Features
from allotment.model.trees import Tree
from bench import real_kube
from tests.horizontal_autoscalers import CASES, NAMESPACE, Outcome, create, outcome
from tests.polling import until

pytestmark = pytest.mark.every_release

CONTROLLERS = "horizontal-pod-autoscaler-controller,serviceaccount-controller,root-ca-certificate-publisher-controller"
METRICS = Resource("metrics.k8s.io", "v1beta1", "pods", "PodMetrics", True)
#: Without an aggregated API server, the metrics are custom resources.
DEFINITION: Tree = {
    "metadata": {
        "name": "pods.metrics.k8s.io", "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
    },
    "spec": {
        "group": "metrics.k8s.io", "scope": "Namespaced",
        "names": {"kind": "PodMetrics", "plural": "pods", "singular": "podmetrics", "listKind": "PodMetricsList"},
        "versions": [{
            "name": "v1beta1", "served": True, "storage": True,
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
        }],
    },
}  # fmt: skip


async def on_kubernetes(client: Client) -> dict[str, Outcome]:
    await client.create(CUSTOM_KINDS, DEFINITION)

    async def is_served() -> bool:
        tree = await client.get(CUSTOM_KINDS, "pods.metrics.k8s.io")
        conditions = (tree.get("status") or {}).get("conditions") or ()
        return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)

    await until(is_served)

    async def measure(pod: str, usage: Tree) -> None:
        labels = (await client.get(PODS, pod, NAMESPACE))["metadata"]["labels"]
        containers = [{"name": "main", "usage": usage}]
        content = {"timestamp": "2026-01-01T00:00:00Z", "window": "15s", "containers": containers}
        named = {"apiVersion": METRICS.api_version, "kind": METRICS.kind, "metadata": {"name": pod, "labels": labels}}
        await client.create(METRICS, {**named, **content}, NAMESPACE)

    for name, case in CASES.items():
        await create(client, name, case, measure)
    return {name: await outcome(client, name) for name in CASES}


async def on_a_lab(release: str) -> dict[str, Outcome]:
    without = frozenset(NAMES) - {"horizontal-autoscaling"}
    async with running(Settings(tls=False, features=Features(release), without=without)) as plane:
        client = plane.client()

        async def measure(pod: str, usage: Tree) -> None:
            text = ",".join(f"{name}={amount}" for name, amount in usage.items())
            annotations = {"metadata": {"annotations": {"allotment.dev/usage": text}}}
            await client.patch(PODS, pod, annotations, NAMESPACE)

        for name, case in CASES.items():
            await create(client, name, case, measure)
        return {name: await outcome(client, name) for name in CASES}


def test_autoscalers_are_decided_as_by_kubernetes(paths: dict[str, str], release: str) -> None:
    async def scenario() -> None:
        with real_kube.plane(paths, controllers=CONTROLLERS, scheduler=False) as kube:
            async with HttpClient(target([kube.kubeconfig])) as client:
                expected = await on_kubernetes(client)
        found = await on_a_lab(release)
        different = [f"{name}\nkube {expected[name]}\nlab  {found[name]}" for name in CASES
                     if expected[name] != found[name]]  # fmt: skip
        assert not different, "\n\n".join(different)

    asyncio.run(scenario())
