"""Reading: one object, all of them, pages, selectors, and what is not there."""

from __future__ import annotations

import base64
import json

import pytest

from allotment.cluster.client import Resource
from allotment.cluster.errors import StatusError
from allotment.cluster.resources import CONFIG_MAPS, NODES, PODS
from tests.cluster.backends import Backend, Here
from tests.cluster.objects import config_map, names, pod


def test_what_was_written_is_read(backend: Backend) -> None:
    async def story(here: Here) -> None:
        made = await here.client.create(CONFIG_MAPS, config_map("a", x="é\u2028\n"), here.namespace)
        assert (made["kind"], made["apiVersion"], made["data"]) == ("ConfigMap", "v1", {"x": "é\u2028\n"})
        assert made["metadata"]["resourceVersion"].isdecimal()
        assert await here.client.get(CONFIG_MAPS, "a", here.namespace) == made
        listing = await here.client.list(CONFIG_MAPS, here.namespace, fields="metadata.name=a")
        assert list(listing.items) == [made]
        assert int(listing.revision) >= int(made["metadata"]["resourceVersion"])

    backend.run(story)


def test_what_is_not_there_is_404(backend: Backend) -> None:
    async def story(here: Here) -> None:
        with pytest.raises(StatusError, match='configmaps "a" not found') as raised:
            await here.client.get(CONFIG_MAPS, "a", here.namespace)
        assert (raised.value.code, raised.value.reason) == (404, "NotFound")
        unknown = Resource("example.com", "v1", "unicorns", "Unicorn", True)
        for asked in (here.client.get(unknown, "a", here.namespace), here.client.list(unknown)):
            with pytest.raises(StatusError) as raised:
                await asked
            assert raised.value.code == 404

    backend.run(story)


@pytest.mark.parametrize("size", [0, 1, 3, 500])
def test_a_list_is_whole_whatever_its_pages(backend: Backend, size: int) -> None:
    async def story(here: Here) -> None:
        wanted = [f"c{number}" for number in range(7)]
        for name in wanted:
            await here.client.create(CONFIG_MAPS, config_map(name), here.namespace)
        listing = await here.client.list(
            CONFIG_MAPS, here.namespace, fields="metadata.name!=kube-root-ca.crt", limit=size
        )
        assert names(listing.items) == wanted
        assert {(tree["kind"], tree["apiVersion"]) for tree in listing.items} == {("ConfigMap", "v1")}

    backend.run(story)


def test_pages_are_of_one_moment(backend: Backend) -> None:
    async def story(here: Here) -> None:
        for name in "abc":
            await here.client.create(PODS, pod(name), here.namespace)
        path = PODS.path(here.namespace)
        first = await here.client.read(path, [("limit", "2")])
        assert names(first["items"]) == ["a", "b"]
        assert first["metadata"]["remainingItemCount"] == 1
        await here.client.create(PODS, pod("d"), here.namespace)
        rest = await here.client.read(path, [("limit", "2"), ("continue", first["metadata"]["continue"])])
        assert names(rest["items"]) == ["c"]
        assert "continue" not in rest["metadata"]
        assert rest["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]

    backend.run(story)


def test_a_page_that_comes_too_late_is_410_and_says_how_to_go_on(backend: Backend) -> None:
    async def story(here: Here) -> None:
        for name in "abc":
            await here.client.create(PODS, pod(name), here.namespace)
        path = PODS.path(here.namespace)
        first = await here.client.read(path, [("limit", "2")])
        await here.client.create(PODS, pod("d"), here.namespace)
        await here.forget()
        with pytest.raises(StatusError) as raised:
            await here.client.read(path, [("limit", "2"), ("continue", first["metadata"]["continue"])])
        assert (raised.value.code, raised.value.reason) == (410, "Expired")
        inconsistent = raised.value.status["metadata"]["continue"]
        rest = await here.client.read(path, [("limit", "9"), ("continue", inconsistent)])
        assert names(rest["items"]) == ["c", "d"]
        token = json.loads(base64.urlsafe_b64decode(inconsistent + "=="))
        assert token["rv"] == -1

    backend.run(story)


def test_labels_and_fields_select(backend: Backend) -> None:
    async def story(here: Here) -> None:
        for name, labels in {"a": {"tier": "web"}, "b": {"tier": "db"}, "c": {}}.items():
            await here.client.create(PODS, pod(name, **labels), here.namespace)

        async def found(labels: str = "", fields: str = "") -> str:
            return "".join(names((await here.client.list(PODS, here.namespace, labels=labels, fields=fields)).items))

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
                await here.client.list(PODS, here.namespace, labels=wrong, fields=field)
            assert raised.value.code == 400

    backend.run(story)


def test_all_namespaces_are_listed_together(backend: Backend) -> None:
    async def story(here: Here) -> None:
        await here.client.create(CONFIG_MAPS, config_map("mine"), here.namespace)
        everywhere = (await here.client.list(CONFIG_MAPS, fields="metadata.name=mine")).items
        assert here.namespace in [tree["metadata"]["namespace"] for tree in everywhere]
        assert (await here.client.list(NODES)).revision

    backend.run(story)
