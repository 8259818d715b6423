"""A namespace is deleted after its contents, and reports what remains."""

from __future__ import annotations

from allotment.cluster.resources import CLAIMS, CONFIG_MAPS, EVENTS, NAMESPACES, PODS
from allotment.controllers.namespaces import namespaces
from tests.unit.cluster import idle
from tests.unit.controllers.world import NAMESPACE, World, pod, world


async def ended(cluster: World) -> None:
    tree = cluster.get(NAMESPACES, NAMESPACE)
    cluster.change(NAMESPACES, NAMESPACE, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}, spec=tree["spec"])


def test_the_contents_are_deleted_before_the_finalizer_is_removed() -> None:
    async def scenario() -> None:
        async with world(namespaces) as cluster:
            cluster.put(NAMESPACES, {"metadata": {"name": NAMESPACE}, "spec": {"finalizers": ["kubernetes"]}})
            cluster.put(NAMESPACES, {"metadata": {"name": "other"}, "spec": {"finalizers": ["kubernetes"]}})
            for resource in (CONFIG_MAPS, CLAIMS, EVENTS):
                cluster.put(resource, {"metadata": {"name": "x"}})
            cluster.put(PODS, pod("p"))
            cluster.client.put(PODS, {**pod("q"), "metadata": {"name": "q", "namespace": "other"}})
            await ended(cluster)
            await cluster.until(lambda: cluster.names(NAMESPACES) == ["other"])
            assert cluster.names(PODS) == ["q"]
            assert not cluster.all(CONFIG_MAPS) + cluster.all(CLAIMS) + cluster.all(EVENTS)

    idle.run(scenario())


def test_remaining_objects_block_deletion_and_are_reported() -> None:
    async def scenario() -> None:
        async with world(namespaces) as cluster:
            cluster.put(NAMESPACES, {"metadata": {"name": NAMESPACE}, "spec": {"finalizers": ["kubernetes"]}})
            cluster.put(CONFIG_MAPS, {"metadata": {"name": "c", "finalizers": ["example.com/wait"]}})
            await ended(cluster)
            await cluster.until(lambda: cluster.get(NAMESPACES, NAMESPACE).get("status"))
            conditions = {
                condition["type"]: condition for condition in cluster.get(NAMESPACES, NAMESPACE)["status"]["conditions"]
            }
            assert list(conditions) == [
                "NamespaceDeletionDiscoveryFailure", "NamespaceDeletionGroupVersionParsingFailure",
                "NamespaceDeletionContentFailure", "NamespaceContentRemaining", "NamespaceFinalizersRemaining",
            ]  # fmt: skip
            assert conditions["NamespaceContentRemaining"]["status"] == "True"
            assert conditions["NamespaceFinalizersRemaining"]["message"] == (
                "Some content in the namespace has finalizers remaining: example.com/wait in 1 resource instances"
            )
            held = cluster.get(CONFIG_MAPS, "c")
            await cluster.client.update(CONFIG_MAPS, {**held, "metadata": {**held["metadata"], "finalizers": []}})
            await cluster.until(lambda: not cluster.all(NAMESPACES))

    idle.run(scenario())


def test_other_objects_are_deleted_after_the_last_pod() -> None:
    async def scenario() -> None:
        async with world(namespaces) as cluster:
            cluster.put(NAMESPACES, {"metadata": {"name": NAMESPACE}, "spec": {"finalizers": ["kubernetes"]}})
            cluster.put(PODS, pod("p", finalizers=["example.com/wait"]))
            cluster.put(CONFIG_MAPS, {"metadata": {"name": "c"}})
            await ended(cluster)
            await cluster.until(lambda: cluster.get(NAMESPACES, NAMESPACE).get("status"))
            assert cluster.names(CONFIG_MAPS) == ["c"]
            conditions = cluster.get(NAMESPACES, NAMESPACE)["status"]["conditions"]
            assert [condition["status"] for condition in conditions] == ["False"] * 5
            held = cluster.get(PODS, "p")
            await cluster.client.update(PODS, {**held, "metadata": {**held["metadata"], "finalizers": []}})
            await cluster.until(lambda: not cluster.all(NAMESPACES))
            assert cluster.names(CONFIG_MAPS) == []

    idle.run(scenario())


def test_a_new_namespace_of_the_same_name_is_kept() -> None:
    """The cache still contains the old one."""

    async def scenario() -> None:
        async with world(namespaces) as cluster:
            cluster.put(NAMESPACES, {"metadata": {"name": NAMESPACE}, "spec": {"finalizers": ["kubernetes"]}})
            cluster.put(PODS, pod("p", finalizers=["example.com/wait"]))
            await ended(cluster)
            await cluster.until(lambda: cluster.get(NAMESPACES, NAMESPACE).get("status"))
            await cluster.settled()
            old = cluster.get(NAMESPACES, NAMESPACE)
            metadata = {"name": NAMESPACE, "uid": "new", "resourceVersion": old["metadata"]["resourceVersion"]}
            cluster.client.objects[NAMESPACES, "", NAMESPACE] = {**old, "metadata": metadata}
            cluster.put(CONFIG_MAPS, {"metadata": {"name": "kept"}})
            cluster.remove(PODS, "p")
            await cluster.settled()
            assert cluster.names(CONFIG_MAPS) == ["kept"]
            assert cluster.get(NAMESPACES, NAMESPACE)["spec"]["finalizers"] == ["kubernetes"]

    idle.run(scenario())
