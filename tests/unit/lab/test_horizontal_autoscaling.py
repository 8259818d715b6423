"""A lab scales workloads by the usage that annotations state."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from allotment.cluster.resources import DEPLOYMENTS, EVENTS, HORIZONTAL_AUTOSCALERS, NAMESPACES, PODS
from allotment.model.features import Features
from allotment.model.trees import Tree
from tests.lab.harness import LabHarness, lab_harness

WEB: Tree = {
    "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"},
    "spec": {
        "replicas": 1, "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "main", "image": "nginx", "resources": {"requests": {"cpu": "100m"}}}]},
        },
    },
}  # fmt: skip


def autoscaler(*metrics: Tree, name: str = "web", target: str = "web", least: int = 1) -> Tree:
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": target}
    spec: Tree = {"scaleTargetRef": reference, "minReplicas": least, "maxReplicas": 5, "metrics": list(metrics)}
    metadata = {"name": name, "namespace": "shop"}
    return {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": metadata, "spec": spec}


def cpu(percentage: int) -> Tree:
    target = {"type": "Utilization", "averageUtilization": percentage}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


async def until(lab: LabHarness, reason: str, condition: str = "AbleToScale", name: str = "web") -> Tree:
    """The autoscaler once a condition has this reason."""
    found: Tree = {}
    async with asyncio.timeout(30):
        while True:
            found = await lab.client.get(HORIZONTAL_AUTOSCALERS, name, "shop")
            conditions = (found.get("status") or {}).get("conditions") or ()
            if any(each["type"] == condition and each["reason"] == reason for each in conditions):
                return found
            await asyncio.sleep(0.02)


async def annotate(lab: LabHarness, **annotations: str | None) -> None:
    for pod in (await lab.client.list(PODS, "shop")).items:
        named = {f"allotment.dev/{key}": value for key, value in annotations.items()}
        await lab.client.patch(PODS, pod["metadata"]["name"], {"metadata": {"annotations": named}}, "shop")


def message(tree: Tree, condition: str) -> Any:
    return next(each["message"] for each in tree["status"]["conditions"] if each["type"] == condition)


async def event(lab: LabHarness, reason: str, expected: str) -> None:
    """Wait for an event with this message."""
    found: list[str] = []
    async with asyncio.timeout(30):
        while expected not in found:
            items = (await lab.client.list(EVENTS, "shop")).items
            found = [each["message"] for each in items if each["reason"] == reason]
            await asyncio.sleep(0.02)


def test_a_deployment_is_scaled_by_the_stated_usage_of_its_pods() -> None:
    async def scenario() -> None:
        async with lab_harness(Features("1.37"), fleet=["t4-4x-pcie"], speed=100) as lab:
            assert await lab.post(WEB) == (201, "")
            assert await lab.post(autoscaler(cpu(50))) == (201, "")
            await lab.running("shop", 1)
            found = await until(lab, "FailedGetResourceMetric", "ScalingActive")
            error = (
                "failed to get cpu utilization: unable to get metrics for resource cpu: no metrics returned from"
                " resource metrics API"
            )
            assert message(found, "ScalingActive") == f"the HPA was unable to compute the replica count: {error}"
            assert found["status"]["currentMetrics"] == [{"type": ""}]
            invalid = "invalid metrics (1 invalid out of 1), first error is: failed to get cpu resource metric value: "
            await event(lab, "FailedComputeMetricsReplicas", f"{invalid}{error}")

            await annotate(lab, usage="cpu=150m,memory=64Mi")
            found = await until(lab, "SucceededRescale")
            assert message(found, "AbleToScale") == "the HPA controller was able to update the target scale to 3"
            assert found["status"]["desiredReplicas"] == 3
            assert found["status"]["currentMetrics"] == [
                {"type": "Resource", "resource": {
                    "name": "cpu", "current": {"averageUtilization": 150, "averageValue": "150m"}}}
            ]  # fmt: skip
            assert found["status"]["observedGeneration"] == 1
            assert message(found, "ScalingActive") == (
                "the HPA was able to successfully calculate a replica count from cpu resource utilization"
                " (percentage of request)"
            )
            expected = "New size: 3; reason: cpu resource utilization (percentage of request) above target"
            await event(lab, "SuccessfulRescale", expected)
            await lab.running("shop", 3)
            listed = json.loads(await lab.text("/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods"))
            assert [each["containers"][0]["usage"] for each in listed["items"]] == [{"cpu": "150m", "memory": "64Mi"}]
            nodes = json.loads(await lab.text("/apis/metrics.k8s.io/v1beta1/nodes"))
            assert [each["usage"] for each in nodes["items"]] == [{"cpu": "150m", "memory": "64Mi"}]

            await annotate(lab, usage="cpu=10m")
            await until(lab, "ScaleDownStabilized")
            await lab.running("shop", 1)
            await event(lab, "SuccessfulRescale", "New size: 1; reason: All metrics below target")

    asyncio.run(scenario())


def test_what_prevents_scaling_is_reported() -> None:
    async def scenario() -> None:
        async with lab_harness(Features("1.36"), fleet=["t4-4x-pcie"], speed=100) as lab:
            assert await lab.post(autoscaler(cpu(50), name="lost", target="lost")) == (201, "")
            found = await until(lab, "FailedGetScale", name="lost")
            assert message(found, "AbleToScale") == (
                'the HPA controller was unable to get the target\'s current scale: deployments.apps "lost" not found'
            )
            assert "generation" not in found["metadata"]
            assert await lab.post({**WEB, "spec": {**WEB["spec"], "replicas": 0}}) == (201, "")
            assert await lab.post(autoscaler(cpu(50))) == (201, "")
            found = await until(lab, "ScalingDisabled", "ScalingActive")
            assert found["status"]["desiredReplicas"] == 0
            await lab.client.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 9}}, "shop")
            found = await until(lab, "SucceededRescale")
            await event(
                lab, "SuccessfulRescale", "New size: 5; reason: Current number of replicas above Spec.MaxReplicas"
            )
            assert (await lab.post(autoscaler(cpu(50), name="zero", least=0)))[0] == 422

    asyncio.run(scenario())


def test_custom_and_external_metrics_are_annotations() -> None:
    async def scenario() -> None:
        async with lab_harness(Features("1.37"), fleet=["t4-4x-pcie"], speed=100) as lab:
            assert await lab.post(WEB) == (201, "")
            queue = {"type": "External", "external": {
                "metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "10"}}}  # fmt: skip
            assert await lab.post(autoscaler(queue, least=0)) == (201, "")
            found = await until(lab, "FailedGetExternalMetric", "ScalingActive")
            assert message(found, "ScalingActive").endswith(
                "failed to get queue external metric: unable to get external metric shop/queue/nil: no metrics returned"
                " from external metrics API"
            )
            await lab.client.patch(
                NAMESPACES, "shop", {"metadata": {"annotations": {"allotment.dev/metric.queue": "31"}}}
            )
            found = await until(lab, "SucceededRescale")
            assert found["status"]["desiredReplicas"] == 4
            await event(lab, "SuccessfulRescale", "New size: 4; reason: external metric queue(nil) above target")
            await lab.client.patch(
                NAMESPACES, "shop", {"metadata": {"annotations": {"allotment.dev/metric.queue": "0"}}}
            )
            found = await until(lab, "ScaledToZero", "ScaledToZero")
            assert found["status"]["desiredReplicas"] == 0

    asyncio.run(scenario())
