"""Claims and volumes in use are not deleted; from 1.37 claims say whether a pod uses them."""

from __future__ import annotations

import pytest

from allotment.cluster.resources import PODS, VOLUME_CLAIMS, VOLUMES
from allotment.controllers.volumes.protection import claim_protection, volume_protection
from allotment.model.features import Features
from allotment.model.trees import Tree
from tests.unit.cluster import idle
from tests.unit.controllers.volumes.objects import claim, volume
from tests.unit.controllers.world import World, pod, world

CLAIM = "kubernetes.io/pvc-protection"
VOLUME = "kubernetes.io/pv-protection"
USES: Tree = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}
DELETED: Tree = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


def finalizers(cluster: World) -> list[str]:
    return list(cluster.get(VOLUME_CLAIMS, "data")["metadata"].get("finalizers") or ())


def test_claim_is_deleted_when_its_last_pod_is_gone() -> None:
    async def scenario() -> None:
        async with world(claim_protection(Features("1.36"))) as cluster:
            cluster.put(VOLUME_CLAIMS, claim())
            await cluster.until(lambda: finalizers(cluster) == [CLAIM])
            cluster.put(PODS, pod("web", node="a", spec=USES))
            cluster.change(VOLUME_CLAIMS, "data", metadata=DELETED)
            await cluster.settled()
            assert finalizers(cluster) == [CLAIM]
            cluster.remove(PODS, "web")
            await cluster.until(lambda: not cluster.all(VOLUME_CLAIMS))

    idle.run(scenario())


def test_pod_without_node_does_not_keep_a_claim() -> None:
    async def scenario() -> None:
        async with world(claim_protection(Features("1.36"))) as cluster:
            cluster.put(PODS, pod("web", spec=USES))
            cluster.put(VOLUME_CLAIMS, claim())
            await cluster.until(lambda: finalizers(cluster) == [CLAIM])
            cluster.change(VOLUME_CLAIMS, "data", metadata=DELETED)
            await cluster.until(lambda: not cluster.all(VOLUME_CLAIMS))

    idle.run(scenario())


@pytest.mark.parametrize("release", ["1.36", "1.37"])
def test_condition_states_whether_a_pod_uses_the_claim(release: str) -> None:
    def unused(cluster: World) -> list[str]:
        conditions = cluster.get(VOLUME_CLAIMS, "data")["status"].get("conditions") or ()
        return [f"{each['type']}={each['status']}: {each['reason']}" for each in conditions]

    async def scenario() -> None:
        async with world(claim_protection(Features(release))) as cluster:
            cluster.put(VOLUME_CLAIMS, {**claim(), "status": {"phase": "Bound"}})
            if release == "1.36":
                await cluster.until(lambda: finalizers(cluster))
                assert unused(cluster) == []
                return
            await cluster.until(lambda: unused(cluster) == ["Unused=True: NoPodsUsingPVC"])
            cluster.put(PODS, pod("web", spec=USES))
            await cluster.until(lambda: unused(cluster) == ["Unused=False: PodUsingPVC"])
            cluster.put(PODS, pod("web", spec=USES, phase="Succeeded"))
            await cluster.until(lambda: unused(cluster) == ["Unused=True: NoPodsUsingPVC"])

    idle.run(scenario())


def test_volume_is_deleted_when_it_is_not_bound_any_more() -> None:
    async def scenario() -> None:
        async with world(volume_protection) as cluster:
            cluster.put(VOLUMES, {**volume(), "status": {"phase": "Bound"}})
            await cluster.until(lambda: cluster.get(VOLUMES, "disk")["metadata"].get("finalizers") == [VOLUME])
            cluster.change(VOLUMES, "disk", metadata=DELETED)
            await cluster.settled()
            assert cluster.names(VOLUMES) == ["disk"]
            cluster.change(VOLUMES, "disk", status={"phase": "Released"})
            await cluster.until(lambda: not cluster.all(VOLUMES))

    idle.run(scenario())
