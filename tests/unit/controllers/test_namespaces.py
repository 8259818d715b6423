"""A namespace is deleted after its contents, and reports what remains."""

from __future__ import annotations

from allotment.cluster.resources import CLAIMS, CONFIG_MAPS, EVENTS, NAMESPACES, PODS
from allotment.controllers.namespaces import namespaces
from tests.unit.cluster import idle
from tests.unit.controllers.world import NAMESPACE, World, pod, world


async def ended(here: World) -> None:
    tree = here.get(NAMESPACES, NAMESPACE)
    here.change(NAMESPACES, NAMESPACE, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}, spec=tree["spec"])


def test_the_contents_are_deleted_before_the_finalizer_is_removed() -> None:
    async def story() -> None:
        async with world(namespaces) as here:
            here.put(NAMESPACES, {"metadata": {"name": NAMESPACE}, "spec": {"finalizers": ["kubernetes"]}})
            here.put(NAMESPACES, {"metadata": {"name": "other"}, "spec": {"finalizers": ["kubernetes"]}})
            for resource in (CONFIG_MAPS, CLAIMS, EVENTS):
                here.put(resource, {"metadata": {"name": "x"}})
            here.put(PODS, pod("p"))
            here.client.put(PODS, {**pod("q"), "metadata": {"name": "q", "namespace": "other"}})
            await ended(here)
            await here.until(lambda: here.names(NAMESPACES) == ["other"])
            assert here.names(PODS) == ["q"]
            assert not here.all(CONFIG_MAPS) + here.all(CLAIMS) + here.all(EVENTS)

    idle.run(story())


def test_remaining_objects_block_deletion_and_are_reported() -> None:
    async def story() -> None:
        async with world(namespaces) as here:
            here.put(NAMESPACES, {"metadata": {"name": NAMESPACE}, "spec": {"finalizers": ["kubernetes"]}})
            here.put(PODS, pod("p", finalizers=["example.com/wait"]))
            await ended(here)
            await here.until(lambda: here.get(NAMESPACES, NAMESPACE).get("status"))
            conditions = {one["type"]: one for one in here.get(NAMESPACES, NAMESPACE)["status"]["conditions"]}
            assert conditions["NamespaceContentRemaining"]["status"] == "True"
            assert conditions["NamespaceFinalizersRemaining"]["message"] == (
                "Some content in the namespace has finalizers remaining: example.com/wait in 1 resource instances"
            )
            held = here.get(PODS, "p")
            await here.client.update(PODS, {**held, "metadata": {**held["metadata"], "finalizers": []}})
            await here.until(lambda: not here.all(NAMESPACES))

    idle.run(story())


def test_a_new_namespace_of_the_same_name_is_kept() -> None:
    """The cache has the old one still."""

    async def story() -> None:
        async with world(namespaces) as here:
            here.put(NAMESPACES, {"metadata": {"name": NAMESPACE}, "spec": {"finalizers": ["kubernetes"]}})
            here.put(PODS, pod("p", finalizers=["example.com/wait"]))
            await ended(here)
            await here.until(lambda: here.get(NAMESPACES, NAMESPACE).get("status"))
            await here.settled()
            old = here.get(NAMESPACES, NAMESPACE)
            metadata = {"name": NAMESPACE, "uid": "new", "resourceVersion": old["metadata"]["resourceVersion"]}
            here.client.objects[NAMESPACES, "", NAMESPACE] = {**old, "metadata": metadata}
            here.put(CONFIG_MAPS, {"metadata": {"name": "kept"}})
            here.remove(PODS, "p")
            await here.settled()
            assert here.names(CONFIG_MAPS) == ["kept"]
            assert here.get(NAMESPACES, NAMESPACE)["spec"]["finalizers"] == ["kubernetes"]

    idle.run(story())
