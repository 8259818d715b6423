"""Quotas report usage: objects by number, pods by their requests, claims by their devices."""

from __future__ import annotations

from allotment.cluster.resources import CLAIMS, CONFIG_MAPS, PODS, RESOURCE_QUOTAS
from allotment.controllers.quotas import quotas
from allotment.model.trees import Tree
from tests.unit.cluster import idle
from tests.unit.controllers.world import World, pod, world


def used(cluster: World) -> dict[str, str]:
    found: dict[str, str] = (cluster.get(RESOURCE_QUOTAS, "q").get("status") or {}).get("used", {})
    return found


def quota(**hard: str) -> Tree:
    return {"metadata": {"name": "q"}, "spec": {"hard": {key.replace("__", "/"): text for key, text in hard.items()}}}


def test_the_status_follows_the_existing_objects() -> None:
    async def scenario() -> None:
        async with world(quotas) as cluster:
            cluster.put(RESOURCE_QUOTAS, quota(pods="5", cpu="4", count__configmaps="3", secrets="1"))
            await cluster.until(
                lambda: used(cluster) == {"pods": "0", "cpu": "0", "count/configmaps": "0", "secrets": "0"}
            )
            container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "500m"}}}
            for name in ("a", "b", "ended"):
                cluster.put(PODS, pod(name, spec={"containers": [container]}))
            cluster.put(CONFIG_MAPS, {"metadata": {"name": "m"}})
            cluster.change(PODS, "ended", status={"phase": "Succeeded"})
            cluster.client.put(PODS, {"metadata": {"name": "elsewhere", "namespace": "other"}, "spec": {}})
            await cluster.until(lambda: (used(cluster)["pods"], used(cluster)["cpu"]) == ("2", "1"))
            assert used(cluster)["count/configmaps"] == "1"
            cluster.remove(PODS, "a")
            await cluster.until(lambda: used(cluster)["cpu"] == "500m")

    idle.run(scenario())


def test_claims_count_by_number_and_by_devices() -> None:
    async def scenario() -> None:
        async with world(quotas) as cluster:
            device_key = "gpu.example.com.deviceclass.resource.k8s.io/devices"
            hard = {"count/resourceclaims.resource.k8s.io": "4", device_key: "8"}
            cluster.put(RESOURCE_QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": hard}})
            exactly = {"deviceClassName": "gpu.example.com", "allocationMode": "ExactCount", "count": 3}
            request = {"name": "g", "exactly": exactly}
            cluster.put(CLAIMS, {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [request]}}})
            await cluster.until(lambda: used(cluster).get(device_key) == "3")
            assert used(cluster)["count/resourceclaims.resource.k8s.io"] == "1"

    idle.run(scenario())
