"""Deployments update from one template to the next, keep history, and report progress."""

from __future__ import annotations

from typing import Any

from allotment.cluster.resources import DEPLOYMENTS, PODS, REPLICA_SETS
from allotment.controllers.deployments import REVISION, deployments
from allotment.controllers.replica_sets import replica_sets
from allotment.model.trees import Tree
from tests.unit.cluster import idle
from tests.unit.controllers.world import World, kubelet, world


def spec(image: str = "one", replicas: int = 3, labels: dict[str, str] | None = None, **more: Any) -> Tree:
    containers = [{"name": "c", "image": image}]
    template = {"metadata": {"labels": {"app": "web", **(labels or {})}}, "spec": {"containers": containers}}
    return {
        "replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template,
        "progressDeadlineSeconds": 600, "revisionHistoryLimit": 10, **more,
    }  # fmt: skip


def deployment(**fields: Any) -> Tree:
    return {"metadata": {"name": "web", "generation": 1}, "spec": spec(**fields)}


def conditions(cluster: World) -> dict[str, tuple[str, str]]:
    found = (cluster.get(DEPLOYMENTS, "web").get("status") or {}).get("conditions") or ()
    return {condition["type"]: (condition["status"], condition["reason"]) for condition in found}


def done(cluster: World) -> bool:
    tree = cluster.get(DEPLOYMENTS, "web")
    status = tree.get("status") or {}
    wanted = tree["spec"]["replicas"]
    counts = [status.get(name, 0) for name in ("replicas", "updatedReplicas", "availableReplicas")]
    return counts == [wanted] * 3 and status["observedGeneration"] == tree["metadata"]["generation"]


def images(cluster: World) -> list[str]:
    return [tree["spec"]["containers"][0]["image"] for tree in cluster.all(PODS)]


def test_a_deployment_creates_a_replica_set_that_creates_pods() -> None:
    async def scenario() -> None:
        async with world(deployments, replica_sets, kubelet) as cluster:
            cluster.put(DEPLOYMENTS, deployment())
            await cluster.until(lambda: done(cluster))
            [replica_set] = cluster.all(REPLICA_SETS)
            digest = replica_set["metadata"]["labels"]["pod-template-hash"]
            assert replica_set["metadata"]["name"] == f"web-{digest}"
            assert replica_set["spec"]["selector"]["matchLabels"] == {"app": "web", "pod-template-hash": digest}
            assert all(tree["metadata"]["labels"]["pod-template-hash"] == digest for tree in cluster.all(PODS))
            assert cluster.get(DEPLOYMENTS, "web")["metadata"]["annotations"] == {REVISION: "1"}
            await cluster.until(lambda: conditions(cluster)["Progressing"] == ("True", "NewReplicaSetAvailable"))
            assert conditions(cluster)["Available"] == ("True", "MinimumReplicasAvailable")
            await cluster.until(lambda: cluster.events("ScalingReplicaSet"))
            assert cluster.events("ScalingReplicaSet") == [f"Scaled up replica set web-{digest} from 0 to 3"]

    idle.run(scenario())


def test_a_rollback_reuses_the_old_replica_set() -> None:
    async def scenario() -> None:
        async with world(deployments, replica_sets, kubelet) as cluster:
            cluster.put(DEPLOYMENTS, deployment(image="one"))
            await cluster.until(lambda: done(cluster))
            cluster.change(DEPLOYMENTS, "web", spec=spec(image="two"))
            await cluster.until(lambda: done(cluster) and set(images(cluster)) == {"two"})
            assert len(cluster.all(REPLICA_SETS)) == 2
            available = [
                event.object["status"].get("availableReplicas", 0)
                for _, resource, event in cluster.client.history
                if resource == DEPLOYMENTS and event.object.get("status", {}).get("updatedReplicas")
            ]
            assert min(available[available.index(3) :]) >= 3 - 0
            cluster.change(DEPLOYMENTS, "web", spec=spec(image="one"))
            await cluster.until(lambda: done(cluster) and set(images(cluster)) == {"one"})
            assert len(cluster.all(REPLICA_SETS)) == 2
            revisions = {tree["metadata"]["annotations"][REVISION] for tree in cluster.all(REPLICA_SETS)}
            assert revisions == {"2", "3"}
            assert cluster.get(DEPLOYMENTS, "web")["metadata"]["annotations"][REVISION] == "3"

    idle.run(scenario())


def test_an_update_without_available_pods_stops_and_exceeds_its_deadline() -> None:
    async def scenario() -> None:
        async with world(deployments, replica_sets, kubelet, speed=50) as cluster:
            cluster.put(DEPLOYMENTS, deployment(replicas=4, progressDeadlineSeconds=30))
            await cluster.until(lambda: done(cluster))
            cluster.change(
                DEPLOYMENTS, "web",
                spec=spec(replicas=4, image="two", labels={"stuck": "yes"}, progressDeadlineSeconds=30),
            )  # fmt: skip
            await cluster.until(lambda: conditions(cluster)["Progressing"] == ("False", "ProgressDeadlineExceeded"))
            assert sorted(images(cluster)) == ["one"] * 3 + ["two"] * 2
            assert conditions(cluster)["Available"] == ("True", "MinimumReplicasAvailable")

    idle.run(scenario())


def test_recreate_deletes_old_pods_before_creating_new_ones() -> None:
    async def scenario() -> None:
        async with world(deployments, replica_sets, kubelet) as cluster:
            strategy = {"type": "Recreate"}
            cluster.put(DEPLOYMENTS, deployment(strategy=strategy))
            await cluster.until(lambda: done(cluster))
            cluster.change(DEPLOYMENTS, "web", spec=spec(image="two", strategy=strategy))
            await cluster.until(lambda: done(cluster) and set(images(cluster)) == {"two"})
            alive: set[tuple[str, str]] = set()
            for _, resource, event in cluster.client.history:
                if resource == PODS:
                    key = event.object["metadata"]["name"], event.object["spec"]["containers"][0]["image"]
                    (alive.discard if event.type == "DELETED" else alive.add)(key)
                    assert len({image for _, image in alive}) <= 1

    idle.run(scenario())


def test_a_paused_deployment_scales_but_does_not_roll() -> None:
    async def scenario() -> None:
        async with world(deployments, replica_sets, kubelet) as cluster:
            cluster.put(DEPLOYMENTS, deployment())
            await cluster.until(lambda: done(cluster))
            cluster.change(DEPLOYMENTS, "web", spec=spec(image="two", replicas=5, paused=True))
            await cluster.until(lambda: len(cluster.all(PODS)) == 5)
            assert set(images(cluster)) == {"one"}
            await cluster.until(lambda: conditions(cluster)["Progressing"] == ("Unknown", "DeploymentPaused"))
            cluster.change(DEPLOYMENTS, "web", spec=spec(image="two", replicas=5))
            await cluster.until(lambda: done(cluster) and set(images(cluster)) == {"two"})

    idle.run(scenario())


def test_scaling_up_and_down_keeps_one_replica_set() -> None:
    async def scenario() -> None:
        async with world(deployments, replica_sets, kubelet) as cluster:
            cluster.put(DEPLOYMENTS, deployment(replicas=2))
            for replicas in (7, 1, 0, 3):
                cluster.change(DEPLOYMENTS, "web", spec=spec(replicas=replicas))
                await cluster.until(lambda: done(cluster))
            assert len(cluster.all(REPLICA_SETS)) == 1

    idle.run(scenario())


def test_old_replica_sets_beyond_the_limit_are_deleted() -> None:
    async def scenario() -> None:
        async with world(deployments, replica_sets, kubelet) as cluster:
            cluster.put(DEPLOYMENTS, deployment(image="0", revisionHistoryLimit=1))
            for number in range(1, 4):
                await cluster.until(lambda: done(cluster))
                cluster.change(DEPLOYMENTS, "web", spec=spec(image=str(number), revisionHistoryLimit=1))
            await cluster.until(lambda: done(cluster) and len(cluster.all(REPLICA_SETS)) == 2)
            assert {tree["metadata"]["annotations"][REVISION] for tree in cluster.all(REPLICA_SETS)} == {"3", "4"}

    idle.run(scenario())


def test_history_is_kept_during_an_update() -> None:
    async def scenario() -> None:
        async with world(deployments, replica_sets, kubelet) as cluster:
            cluster.put(DEPLOYMENTS, deployment(image="0", revisionHistoryLimit=0))
            await cluster.until(lambda: done(cluster))
            stuck = spec(image="1", labels={"stuck": "yes"}, revisionHistoryLimit=0)
            cluster.change(DEPLOYMENTS, "web", spec=stuck)
            await cluster.until(lambda: len(cluster.all(REPLICA_SETS)) == 2 and len(cluster.all(PODS)) == 4)
            cluster.change(DEPLOYMENTS, "web", spec=spec(image="2", labels={"stuck": "yes"}, revisionHistoryLimit=0))
            await cluster.until(lambda: len(cluster.all(REPLICA_SETS)) == 3)
            await cluster.until(lambda: sorted(images(cluster)) == ["0"] * 3 + ["2"])
            assert len(cluster.all(REPLICA_SETS)) == 3
            cluster.change(DEPLOYMENTS, "web", spec=spec(image="3", revisionHistoryLimit=0))
            await cluster.until(lambda: done(cluster) and len(cluster.all(REPLICA_SETS)) == 1)

    idle.run(scenario())


def test_an_exceeded_deadline_stays_reported_when_paused() -> None:
    async def scenario() -> None:
        async with world(deployments, replica_sets, kubelet, speed=50) as cluster:
            labels = {"stuck": "yes"}
            cluster.put(DEPLOYMENTS, deployment(labels=labels, progressDeadlineSeconds=10))
            await cluster.until(lambda: conditions(cluster).get("Progressing") == ("False", "ProgressDeadlineExceeded"))
            cluster.change(DEPLOYMENTS, "web", spec=spec(labels=labels, progressDeadlineSeconds=10, paused=True))
            await cluster.until(lambda: cluster.get(DEPLOYMENTS, "web")["status"]["observedGeneration"] == 2)
            assert conditions(cluster)["Progressing"] == ("False", "ProgressDeadlineExceeded")

    idle.run(scenario())


def test_scaling_does_not_start_an_update() -> None:
    async def scenario() -> None:
        async with world(deployments, replica_sets, kubelet) as cluster:
            cluster.put(DEPLOYMENTS, deployment(replicas=1))
            await cluster.until(lambda: conditions(cluster).get("Progressing") == ("True", "NewReplicaSetAvailable"))
            cluster.change(DEPLOYMENTS, "web", spec=spec(replicas=4))
            await cluster.until(lambda: done(cluster))
            reasons = [
                condition["reason"]
                for _, resource, event in cluster.client.history
                if resource == DEPLOYMENTS
                for condition in (event.object.get("status") or {}).get("conditions", ())
                if condition["type"] == "Progressing"
            ]
            first = reasons.index("NewReplicaSetAvailable")
            assert set(reasons[first:]) == {"NewReplicaSetAvailable"}

    idle.run(scenario())
