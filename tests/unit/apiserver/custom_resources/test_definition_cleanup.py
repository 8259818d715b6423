"""A definition that is deleted waits for its objects, as in Kubernetes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from allotment.model.trees import Tree
from tests.polling import until
from tests.unit.apiserver.served import Served

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
FOOS = "/apis/x.io/v1/namespaces/shop/foos"
CLEANUP = "customresourcecleanup.apiextensions.k8s.io"


def definition(**metadata: Any) -> Tree:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "foos", "kind": "Foo"}
    spec = {"group": "x.io", "scope": "Namespaced", "names": names, "versions": [version]}
    return {"metadata": {"name": "foos.x.io", **metadata}, "spec": spec}


def foo(name: str, *finalizers: str) -> Tree:
    return {"apiVersion": "x.io/v1", "kind": "Foo", "metadata": {"name": name, "finalizers": [*finalizers]}}


def terminating(tree: Tree) -> tuple[str, str, str]:
    """Status, reason and message of the condition Terminating."""
    [found] = [condition for condition in tree["status"]["conditions"] if condition["type"] == "Terminating"]
    return found["status"], found["reason"], found["message"]


async def is_absent(served: Served, path: str) -> bool:
    return (await served.get(path)).code == 404


async def with_objects(served: Served) -> Served:
    await served.started()
    await served.post(DEFINITIONS, definition())
    assert (await served.post(FOOS, foo("held", "x.io/f"))).code == 201
    assert (await served.post(FOOS, foo("free"))).code == 201
    return served


def test_objects_with_finalizers_delay_the_deletion_of_their_definition() -> None:
    async def scenario() -> None:
        served = await with_objects(Served())
        response = await served.delete(f"{DEFINITIONS}/foos.x.io")
        assert (response.code, response.body["kind"]) == (200, "CustomResourceDefinition")
        assert response.body["metadata"]["finalizers"] == [CLEANUP]
        assert response.body["metadata"]["generation"] == 1
        assert terminating(response.body) == (
            "True",
            "InstanceDeletionPending",
            "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
        )
        await until(lambda: is_absent(served, f"{FOOS}/free"))
        progress = "InstanceDeletionInProgress", "CustomResource deletion is in progress"
        assert terminating((await served.get(f"{DEFINITIONS}/foos.x.io")).body) == ("True", *progress)
        [left] = (await served.get(FOOS)).body["items"]
        assert left["metadata"]["name"] == "held"
        assert "deletionTimestamp" in left["metadata"]

        refused = await served.post(FOOS, foo("new"))
        assert (refused.code, refused.message) == (
            403,
            'foos.x.io "new" is forbidden: create not allowed while custom resource definition is terminating',
        )
        [resource] = (await served.get("/apis/x.io/v1")).body["resources"]
        assert resource["verbs"] == ["delete", "deletecollection", "get", "list", "watch"]

        await served.patch(f"{FOOS}/held", {"metadata": {"finalizers": None}})
        await until(lambda: is_absent(served, f"{DEFINITIONS}/foos.x.io"))
        assert await is_absent(served, FOOS)

    asyncio.run(scenario())


def test_a_definition_without_objects_is_deleted_at_once() -> None:
    async def scenario() -> None:
        served = await Served().started()
        await served.post(DEFINITIONS, definition())
        await served.delete(f"{DEFINITIONS}/foos.x.io")
        await until(lambda: is_absent(served, f"{DEFINITIONS}/foos.x.io"))

    asyncio.run(scenario())


def test_other_finalizers_of_a_definition_are_waited_for() -> None:
    async def scenario() -> None:
        served = await Served().started()
        await served.post(DEFINITIONS, definition(finalizers=["x.io/own"]))
        await served.delete(f"{DEFINITIONS}/foos.x.io")

        async def is_complete() -> bool:
            tree = (await served.get(f"{DEFINITIONS}/foos.x.io")).body
            return terminating(tree)[0] == "False" and len(tree["metadata"]["finalizers"]) == 1

        await until(is_complete)
        found = (await served.get(f"{DEFINITIONS}/foos.x.io")).body
        assert found["metadata"]["finalizers"] == ["x.io/own"]
        assert terminating(found) == ("False", "InstanceDeletionCompleted", "removed all instances")
        await served.patch(f"{DEFINITIONS}/foos.x.io", {"metadata": {"finalizers": None}})
        assert await is_absent(served, f"{DEFINITIONS}/foos.x.io")

    asyncio.run(scenario())


def test_a_restart_continues_the_deletion(tmp_path: Path) -> None:
    async def scenario() -> None:
        first = await with_objects(Served(tmp_path / "db"))
        await first.delete(f"{DEFINITIONS}/foos.x.io")
        await until(lambda: is_absent(first, f"{FOOS}/free"))
        await first.store.durable()
        first.api.close()
        await first.store.close()

        second = Served(tmp_path / "db")
        second.api.definition_cleanup.begin()
        await second.patch(f"{FOOS}/held", {"metadata": {"finalizers": None}})
        await until(lambda: is_absent(second, f"{DEFINITIONS}/foos.x.io"))
        await second.store.close()

    asyncio.run(scenario())
