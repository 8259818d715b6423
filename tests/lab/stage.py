"""A lab without machines of its own, on which a test sets up a cluster from plain objects."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from allotment.apiserver.http_messages import Request, Response, Streaming
from allotment.cluster.resources import CLAIMS, EVENTS, NAMESPACES, PODS
from allotment.lab import lab
from allotment.lab.control_plane import Plane, running
from allotment.lab.settings import RELEASE, Settings
from allotment.model.features import Features
from allotment.model.trees import Tree
from tests.acting import Acting
from tests.acting import condition as condition
from tests.acting import runs as runs
from tests.acting import waits as waits

_HEADERS = {"content-type": "application/json", "accept": "application/json"}
_NAMESPACE = re.compile("/namespaces/([^/]+)/")
#: Kinds without a namespace, of those that are posted here.
_UNBOUND = frozenset({"Namespace", "Node", "DeviceClass", "ResourceSlice", "DeviceTaintRule"})
_PATIENCE = 120.0


class Stage(Acting):
    """A running control plane and what tests do with it."""

    def __init__(self, plane: Plane) -> None:
        super().__init__(plane.client(), lambda version, kind: lab.by_type(plane.kinds(), version, kind))
        self.plane = plane

    async def post(self, tree: Tree, *, strict: bool = True) -> tuple[int, str]:
        """What kubectl does to create an object: code and message of the answer. Its namespace is made if need be."""
        path = _collection(tree)
        namespace = _NAMESPACE.search(path)
        if namespace:
            await self.have(NAMESPACES, {"metadata": {"name": namespace[1]}})
        answer = await self.plane.api(
            Request(
                "POST", path, f"fieldValidation={'Strict' if strict else 'Ignore'}", _HEADERS, json.dumps(tree).encode()
            )
        )
        assert isinstance(answer, Response)
        text = answer.body.decode()
        if answer.code < 400:
            return answer.code, ""
        return answer.code, json.loads(text)["message"] if text.startswith("{") else text

    async def text(self, path: str, query: str = "") -> str:
        """The answer to a GET, whole."""
        answer = await self.plane.api(Request("GET", path, query))
        if isinstance(answer, Response):
            return answer.body.decode()
        assert isinstance(answer, Streaming)
        return b"".join([piece async for piece in answer.pieces]).decode()

    async def pods(self, namespace: str, found: Callable[[list[Tree]], Any]) -> list[Tree]:
        """The pods of a namespace by name, as soon as something is true of them."""
        pods: list[Tree] = []
        try:
            async with asyncio.timeout(_PATIENCE):
                while not found(pods := list((await self.client.list(PODS, namespace)).items)):
                    await asyncio.sleep(0.005)
        except TimeoutError:
            told = [f"{pod['metadata']['name']}: {pod.get('status')}" for pod in pods]
            raise AssertionError("\n".join(["did not come true:", *told])) from None
        return sorted(pods, key=lambda pod: str(pod["metadata"]["name"]))

    async def running(self, namespace: str, count: int) -> list[Tree]:
        """So many pods of a namespace, and all of them run or have ended well."""
        return await self.pods(namespace, lambda pods: len(pods) == count and all(map(runs, pods)))

    async def claims(self, pod: Tree) -> list[Tree]:
        """The claims of a pod, in the order of its entries; the one for its extended resources comes last."""
        status = pod.get("status") or {}
        made = {entry["name"]: entry.get("resourceClaimName") for entry in status.get("resourceClaimStatuses") or ()}
        entries = pod["spec"].get("resourceClaims") or ()
        names = [entry.get("resourceClaimName") or made.get(entry["name"]) for entry in entries]
        names.append((status.get("extendedResourceClaimStatus") or {}).get("resourceClaimName"))
        return [await self.client.get(CLAIMS, name, pod["metadata"]["namespace"]) for name in names if name]

    async def devices(self, pod: Tree) -> list[str]:
        """The devices of a pod's claims, in the order of their requests."""
        claims = await self.claims(pod)
        return [r["device"] for claim in claims for r in claim["status"]["allocation"]["devices"]["results"]]

    async def told(self, name: str, namespace: str, words: str = "") -> str:
        """The last FailedScheduling event of a pod, as describe shows it, as soon as it has these words."""
        messages: Sequence[str] = ()
        try:
            async with asyncio.timeout(_PATIENCE):
                while not messages or words not in messages[-1]:
                    await asyncio.sleep(0.005)
                    messages = await self.warnings(name, namespace)
        except TimeoutError:
            pod = await self.pod(name, namespace)
            raise AssertionError(f"was not told {words!r} but {messages}; {pod.get('status')}") from None
        return messages[-1]

    async def warnings(self, name: str, namespace: str) -> Sequence[str]:
        """The messages of a pod's FailedScheduling events, oldest first."""
        fields = f"involvedObject.name={name},reason=FailedScheduling"
        items = (await self.client.list(EVENTS, namespace, fields=fields)).items
        return [item["message"] for item in sorted(items, key=lambda item: int(item["metadata"]["resourceVersion"]))]


@asynccontextmanager
async def stage(
    features: Features | None = None, *, fleet: Sequence[str] = (), speed: float = 20.0
) -> AsyncIterator[Stage]:
    """A fresh one, gone at the end; nothing in these tests waits for anything but the programs' patience."""
    settings = Settings(fleet=tuple(fleet), tls=False, features=features or Features(RELEASE), speed=speed)
    async with running(settings) as plane:
        yield Stage(plane)


def _collection(tree: Tree) -> str:
    """Where objects of this type are posted, by Kubernetes' rules for plurals; whether there is such a type or not."""
    group, _, version = str(tree.get("apiVersion", "v1")).rpartition("/")
    kind = str(tree["kind"])
    plural = f"{kind.lower()}{'es' if kind.endswith('s') else 's'}"
    root = f"/apis/{group}/{version}" if group else f"/api/{version}"
    if kind in _UNBOUND:
        return f"{root}/{plural}"
    return f"{root}/namespaces/{tree['metadata'].get('namespace') or 'default'}/{plural}"
