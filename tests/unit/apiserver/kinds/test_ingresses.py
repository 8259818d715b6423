"""Ingresses get the default class."""

from __future__ import annotations

import asyncio
from typing import Any

from allotment.model.trees import Tree
from tests.unit.apiserver.served import Served

INGRESSES = "/apis/networking.k8s.io/v1/namespaces/shop/ingresses"
CLASSES = "/apis/networking.k8s.io/v1/ingressclasses"


def ingress(name: str, annotations: dict[str, str] | None = None, **spec: Any) -> Tree:
    backend = {"service": {"name": "web", "port": {"number": 80}}}
    return {"metadata": {"name": name, "annotations": annotations or {}}, "spec": {"defaultBackend": backend, **spec}}


def default_class(name: str) -> Tree:
    annotations = {"ingressclass.kubernetes.io/is-default-class": "true"}
    return {"metadata": {"name": name, "annotations": annotations}, "spec": {"controller": "example.com/c"}}


def test_an_ingress_without_class_gets_the_newest_default_class() -> None:
    async def scenario() -> None:
        served = await Served().started()

        async def class_of(tree: Tree) -> str | None:
            response = await served.post(INGRESSES, tree)
            assert response.code == 201, response
            name = response.body["spec"].get("ingressClassName")
            return None if name is None else str(name)

        assert await class_of(ingress("before")) is None
        await served.post(CLASSES, {"metadata": {"name": "plain"}, "spec": {"controller": "example.com/c"}})
        assert await class_of(ingress("no-default")) is None
        await served.post(CLASSES, default_class("b"))
        assert await class_of(ingress("one")) == "b"
        assert await class_of(ingress("own", ingressClassName="plain")) == "plain"
        assert await class_of(ingress("annotated", {"kubernetes.io/ingress.class": "other"})) is None
        await served.post(CLASSES, default_class("a"))
        assert await class_of(ingress("same-time")) == "a"
        served.clock.wait(1)
        await served.post(CLASSES, default_class("c"))
        assert await class_of(ingress("newest")) == "c"

    asyncio.run(scenario())
