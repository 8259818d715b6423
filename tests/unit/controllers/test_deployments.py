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


def conditions(here: World) -> dict[str, tuple[str, str]]:
    found = (here.get(DEPLOYMENTS, "web").get("status") or {}).get("conditions") or ()
    return {one["type"]: (one["status"], one["reason"]) for one in found}


def done(here: World) -> bool:
    tree = here.get(DEPLOYMENTS, "web")
    status = tree.get("status") or {}
    wanted = tree["spec"]["replicas"]
    counts = [status.get(name, 0) for name in ("replicas", "updatedReplicas", "availableReplicas")]
    return counts == [wanted] * 3 and status["observedGeneration"] == tree["metadata"]["generation"]


def images(here: World) -> list[str]:
    return [tree["spec"]["containers"][0]["image"] for tree in here.all(PODS)]


def test_a_deployment_makes_a_replica_set_that_makes_pods() -> None:
    async def story() -> None:
        async with world(deployments, replica_sets, kubelet) as here:
            here.put(DEPLOYMENTS, deployment())
            await here.until(lambda: done(here))
            [one] = here.all(REPLICA_SETS)
            digest = one["metadata"]["labels"]["pod-template-hash"]
            assert one["metadata"]["name"] == f"web-{digest}"
            assert one["spec"]["selector"]["matchLabels"] == {"app": "web", "pod-template-hash": digest}
            assert all(tree["metadata"]["labels"]["pod-template-hash"] == digest for tree in here.all(PODS))
            assert here.get(DEPLOYMENTS, "web")["metadata"]["annotations"] == {REVISION: "1"}
            await here.until(lambda: conditions(here)["Progressing"] == ("True", "NewReplicaSetAvailable"))
            assert conditions(here)["Available"] == ("True", "MinimumReplicasAvailable")
            await here.until(lambda: here.events("ScalingReplicaSet"))
            assert here.events("ScalingReplicaSet") == [f"Scaled up replica set web-{digest} from 0 to 3"]

    idle.run(story())


def test_an_update_rolls_and_an_undo_takes_the_old_replica_set_again() -> None:
    async def story() -> None:
        async with world(deployments, replica_sets, kubelet) as here:
            here.put(DEPLOYMENTS, deployment(image="one"))
            await here.until(lambda: done(here))
            here.change(DEPLOYMENTS, "web", spec=spec(image="two"))
            await here.until(lambda: done(here) and set(images(here)) == {"two"})
            assert len(here.all(REPLICA_SETS)) == 2
            available = [
                event.object["status"].get("availableReplicas", 0)
                for _, resource, event in here.client.history
                if resource == DEPLOYMENTS and event.object.get("status", {}).get("updatedReplicas")
            ]
            assert min(available[available.index(3) :]) >= 3 - 0
            here.change(DEPLOYMENTS, "web", spec=spec(image="one"))
            await here.until(lambda: done(here) and set(images(here)) == {"one"})
            assert len(here.all(REPLICA_SETS)) == 2
            revisions = {tree["metadata"]["annotations"][REVISION] for tree in here.all(REPLICA_SETS)}
            assert revisions == {"2", "3"}
            assert here.get(DEPLOYMENTS, "web")["metadata"]["annotations"][REVISION] == "3"

    idle.run(story())


def test_an_update_that_does_not_start_stops_and_is_late_at_last() -> None:
    async def story() -> None:
        async with world(deployments, replica_sets, kubelet, speed=50) as here:
            here.put(DEPLOYMENTS, deployment(replicas=4, progressDeadlineSeconds=30))
            await here.until(lambda: done(here))
            here.change(
                DEPLOYMENTS, "web",
                spec=spec(replicas=4, image="two", labels={"stuck": "yes"}, progressDeadlineSeconds=30),
            )  # fmt: skip
            await here.until(lambda: conditions(here)["Progressing"] == ("False", "ProgressDeadlineExceeded"))
            assert sorted(images(here)) == ["one"] * 3 + ["two"] * 2
            assert conditions(here)["Available"] == ("True", "MinimumReplicasAvailable")

    idle.run(story())


def test_recreate_deletes_old_pods_before_creating_new_ones() -> None:
    async def story() -> None:
        async with world(deployments, replica_sets, kubelet) as here:
            strategy = {"type": "Recreate"}
            here.put(DEPLOYMENTS, deployment(strategy=strategy))
            await here.until(lambda: done(here))
            here.change(DEPLOYMENTS, "web", spec=spec(image="two", strategy=strategy))
            await here.until(lambda: done(here) and set(images(here)) == {"two"})
            alive: set[tuple[str, str]] = set()
            for _, resource, event in here.client.history:
                if resource == PODS:
                    key = event.object["metadata"]["name"], event.object["spec"]["containers"][0]["image"]
                    (alive.discard if event.type == "DELETED" else alive.add)(key)
                    assert len({image for _, image in alive}) <= 1

    idle.run(story())


def test_a_paused_deployment_scales_but_does_not_roll() -> None:
    async def story() -> None:
        async with world(deployments, replica_sets, kubelet) as here:
            here.put(DEPLOYMENTS, deployment())
            await here.until(lambda: done(here))
            here.change(DEPLOYMENTS, "web", spec=spec(image="two", replicas=5, paused=True))
            await here.until(lambda: len(here.all(PODS)) == 5)
            assert set(images(here)) == {"one"}
            await here.until(lambda: conditions(here)["Progressing"] == ("Unknown", "DeploymentPaused"))
            here.change(DEPLOYMENTS, "web", spec=spec(image="two", replicas=5))
            await here.until(lambda: done(here) and set(images(here)) == {"two"})

    idle.run(story())


def test_scaling_up_and_down_keeps_one_replica_set() -> None:
    async def story() -> None:
        async with world(deployments, replica_sets, kubelet) as here:
            here.put(DEPLOYMENTS, deployment(replicas=2))
            for replicas in (7, 1, 0, 3):
                here.change(DEPLOYMENTS, "web", spec=spec(replicas=replicas))
                await here.until(lambda: done(here))
            assert len(here.all(REPLICA_SETS)) == 1

    idle.run(story())


def test_old_replica_sets_beyond_the_limit_are_deleted() -> None:
    async def story() -> None:
        async with world(deployments, replica_sets, kubelet) as here:
            here.put(DEPLOYMENTS, deployment(image="0", revisionHistoryLimit=1))
            for number in range(1, 4):
                await here.until(lambda: done(here))
                here.change(DEPLOYMENTS, "web", spec=spec(image=str(number), revisionHistoryLimit=1))
            await here.until(lambda: done(here) and len(here.all(REPLICA_SETS)) == 2)
            assert {tree["metadata"]["annotations"][REVISION] for tree in here.all(REPLICA_SETS)} == {"3", "4"}

    idle.run(story())


def test_history_is_kept_during_an_update() -> None:
    async def story() -> None:
        async with world(deployments, replica_sets, kubelet) as here:
            here.put(DEPLOYMENTS, deployment(image="0", revisionHistoryLimit=0))
            await here.until(lambda: done(here))
            stuck = spec(image="1", labels={"stuck": "yes"}, revisionHistoryLimit=0)
            here.change(DEPLOYMENTS, "web", spec=stuck)
            await here.until(lambda: len(here.all(REPLICA_SETS)) == 2 and len(here.all(PODS)) == 4)
            here.change(DEPLOYMENTS, "web", spec=spec(image="2", labels={"stuck": "yes"}, revisionHistoryLimit=0))
            await here.until(lambda: len(here.all(REPLICA_SETS)) == 3)
            await here.until(lambda: sorted(images(here)) == ["0"] * 3 + ["2"])
            assert len(here.all(REPLICA_SETS)) == 3
            here.change(DEPLOYMENTS, "web", spec=spec(image="3", revisionHistoryLimit=0))
            await here.until(lambda: done(here) and len(here.all(REPLICA_SETS)) == 1)

    idle.run(story())


def test_an_exceeded_deadline_stays_reported_when_paused() -> None:
    async def story() -> None:
        async with world(deployments, replica_sets, kubelet, speed=50) as here:
            labels = {"stuck": "yes"}
            here.put(DEPLOYMENTS, deployment(labels=labels, progressDeadlineSeconds=10))
            await here.until(lambda: conditions(here).get("Progressing") == ("False", "ProgressDeadlineExceeded"))
            here.change(DEPLOYMENTS, "web", spec=spec(labels=labels, progressDeadlineSeconds=10, paused=True))
            await here.until(lambda: here.get(DEPLOYMENTS, "web")["status"]["observedGeneration"] == 2)
            assert conditions(here)["Progressing"] == ("False", "ProgressDeadlineExceeded")

    idle.run(story())


def test_scaling_does_not_start_an_update() -> None:
    async def story() -> None:
        async with world(deployments, replica_sets, kubelet) as here:
            here.put(DEPLOYMENTS, deployment(replicas=1))
            await here.until(lambda: conditions(here).get("Progressing") == ("True", "NewReplicaSetAvailable"))
            here.change(DEPLOYMENTS, "web", spec=spec(replicas=4))
            await here.until(lambda: done(here))
            reasons = [
                one["reason"]
                for _, resource, event in here.client.history
                if resource == DEPLOYMENTS
                for one in (event.object.get("status") or {}).get("conditions", ())
                if one["type"] == "Progressing"
            ]
            first = reasons.index("NewReplicaSetAvailable")
            assert set(reasons[first:]) == {"NewReplicaSetAvailable"}

    idle.run(story())
