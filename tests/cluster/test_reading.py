"""Reading: one object, lists, pages, selectors, and missing objects."""

from __future__ import annotations

import base64
import json

import pytest

from allotment.cluster.client import Resource
from allotment.cluster.errors import StatusError
from allotment.cluster.resources import CONFIG_MAPS, NODES, PODS
from tests.cluster.backends import Backend, ScenarioInput
from tests.cluster.objects import config_map, names, pod


def test_a_written_object_is_read(backend: Backend) -> None:
    async def scenario(given: ScenarioInput) -> None:
        created = await given.client.create(CONFIG_MAPS, config_map("a", x="é\u2028\n"), given.namespace)
        assert (created["kind"], created["apiVersion"], created["data"]) == ("ConfigMap", "v1", {"x": "é\u2028\n"})
        assert created["metadata"]["resourceVersion"].isdecimal()
        assert await given.client.get(CONFIG_MAPS, "a", given.namespace) == created
        listing = await given.client.list(CONFIG_MAPS, given.namespace, fields="metadata.name=a")
        assert list(listing.items) == [created]
        assert int(listing.revision) >= int(created["metadata"]["resourceVersion"])

    backend.run(scenario)


def test_a_missing_object_is_404(backend: Backend) -> None:
    async def scenario(given: ScenarioInput) -> None:
        with pytest.raises(StatusError, match='configmaps "a" not found') as raised:
            await given.client.get(CONFIG_MAPS, "a", given.namespace)
        assert (raised.value.code, raised.value.reason) == (404, "NotFound")
        unknown = Resource("example.com", "v1", "unicorns", "Unicorn", True)
        for reading in (given.client.get(unknown, "a", given.namespace), given.client.list(unknown)):
            with pytest.raises(StatusError) as raised:
                await reading
            assert raised.value.code == 404

    backend.run(scenario)


@pytest.mark.parametrize("size", [0, 1, 3, 500])
def test_a_list_is_complete_for_every_page_size(backend: Backend, size: int) -> None:
    async def scenario(given: ScenarioInput) -> None:
        expected = [f"c{number}" for number in range(7)]
        for name in expected:
            await given.client.create(CONFIG_MAPS, config_map(name), given.namespace)
        listing = await given.client.list(
            CONFIG_MAPS, given.namespace, fields="metadata.name!=kube-root-ca.crt", limit=size
        )
        assert names(listing.items) == expected
        assert {(tree["kind"], tree["apiVersion"]) for tree in listing.items} == {("ConfigMap", "v1")}

    backend.run(scenario)


def test_pages_are_consistent(backend: Backend) -> None:
    async def scenario(given: ScenarioInput) -> None:
        for name in "abc":
            await given.client.create(PODS, pod(name), given.namespace)
        path = PODS.path(given.namespace)
        first = await given.client.read(path, [("limit", "2")])
        assert names(first["items"]) == ["a", "b"]
        assert first["metadata"]["remainingItemCount"] == 1
        await given.client.create(PODS, pod("d"), given.namespace)
        rest = await given.client.read(path, [("limit", "2"), ("continue", first["metadata"]["continue"])])
        assert names(rest["items"]) == ["c"]
        assert "continue" not in rest["metadata"]
        assert rest["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]

    backend.run(scenario)


def test_an_expired_continue_token_is_410_with_a_new_token(backend: Backend) -> None:
    async def scenario(given: ScenarioInput) -> None:
        for name in "abc":
            await given.client.create(PODS, pod(name), given.namespace)
        path = PODS.path(given.namespace)
        first = await given.client.read(path, [("limit", "2")])
        await given.client.create(PODS, pod("d"), given.namespace)
        await given.forget()
        with pytest.raises(StatusError) as raised:
            await given.client.read(path, [("limit", "2"), ("continue", first["metadata"]["continue"])])
        assert (raised.value.code, raised.value.reason) == (410, "Expired")
        inconsistent = raised.value.status["metadata"]["continue"]
        rest = await given.client.read(path, [("limit", "9"), ("continue", inconsistent)])
        assert names(rest["items"]) == ["c", "d"]
        token = json.loads(base64.urlsafe_b64decode(inconsistent + "=="))
        assert token["rv"] == -1

    backend.run(scenario)


def test_labels_and_fields_select(backend: Backend) -> None:
    async def scenario(given: ScenarioInput) -> None:
        for name, labels in {"a": {"tier": "web"}, "b": {"tier": "db"}, "c": {}}.items():
            await given.client.create(PODS, pod(name, **labels), given.namespace)

        async def found(labels: str = "", fields: str = "") -> str:
            return "".join(names((await given.client.list(PODS, given.namespace, labels=labels, fields=fields)).items))

        assert await found("tier=web") == "a"
        assert await found("tier in (web, db)") == "ab"
        assert await found("tier!=web") == "bc"
        assert await found("!tier") == "c"
        assert await found("tier,tier notin (db)") == "a"
        assert await found(fields="metadata.name=b") == "b"
        assert await found(fields="spec.nodeName=") == "abc"
        assert await found(fields="status.phase!=Running,metadata.name!=a") == "bc"
        assert await found("tier", "metadata.name=c") == ""
        for wrong, field in (("a in b", ""), ("", "spec.color=red")):
            with pytest.raises(StatusError) as raised:
                await given.client.list(PODS, given.namespace, labels=wrong, fields=field)
            assert raised.value.code == 400

    backend.run(scenario)


def test_all_namespaces_are_listed_together(backend: Backend) -> None:
    async def scenario(given: ScenarioInput) -> None:
        await given.client.create(CONFIG_MAPS, config_map("mine"), given.namespace)
        everywhere = (await given.client.list(CONFIG_MAPS, fields="metadata.name=mine")).items
        assert given.namespace in [tree["metadata"]["namespace"] for tree in everywhere]
        assert (await given.client.list(NODES)).revision

    backend.run(scenario)
