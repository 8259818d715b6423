"""A lab without machines of its own, in which a test sets up a cluster from plain objects."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from allotment.apiserver.http_messages import Request, Response, Streaming
from allotment.cluster.resources import CLAIMS, EVENTS, NAMESPACES, PODS
from allotment.lab.control_plane import Plane, running
from allotment.lab.kinds import by_type
from allotment.lab.settings import Settings
from allotment.model import DEFAULT_RELEASE
from allotment.model.features import Features
from allotment.model.trees import Tree
from tests.cluster_actions import ClusterActions, is_running

_HEADERS = {"content-type": "application/json", "accept": "application/json"}
_NAMESPACE = re.compile("/namespaces/([^/]+)/")
#: Cluster-scoped kinds among those that are posted here.
_CLUSTER_SCOPED = frozenset({"Namespace", "Node", "DeviceClass", "ResourceSlice", "DeviceTaintRule"})
_TIMEOUT_SECONDS = 120.0


class LabHarness(ClusterActions):
    """A running control plane with the actions of tests."""

    def __init__(self, plane: Plane) -> None:
        super().__init__(plane.client(), lambda version, kind: by_type(plane.kinds(), version, kind))
        self.plane = plane

    async def post(self, tree: Tree, *, strict: bool = True) -> tuple[int, str]:
        """Create an object as kubectl does, with its namespace if necessary; return the answer's code and message."""
        path = _collection(tree)
        namespace = _NAMESPACE.search(path)
        if namespace:
            await self.ensure(NAMESPACES, {"metadata": {"name": namespace[1]}})
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
        """The whole answer to a GET request."""
        answer = await self.plane.api(Request("GET", path, query))
        if isinstance(answer, Response):
            return answer.body.decode()
        assert isinstance(answer, Streaming)
        return b"".join([piece async for piece in answer.pieces]).decode()

    async def pods(self, namespace: str, found: Callable[[list[Tree]], Any]) -> list[Tree]:
        """The pods of a namespace by name, once ``found`` is true of them."""
        pods: list[Tree] = []
        try:
            async with asyncio.timeout(_TIMEOUT_SECONDS):
                while not found(pods := list((await self.client.list(PODS, namespace)).items)):
                    await asyncio.sleep(0.005)
        except TimeoutError:
            statuses = [f"{pod['metadata']['name']}: {pod.get('status')}" for pod in pods]
            raise AssertionError("\n".join(["condition not met:", *statuses])) from None
        return sorted(pods, key=lambda pod: str(pod["metadata"]["name"]))

    async def running(self, namespace: str, count: int) -> list[Tree]:
        """The pods of a namespace, once there are ``count`` and all of them run or have succeeded."""
        return await self.pods(namespace, lambda pods: len(pods) == count and all(map(is_running, pods)))

    async def claims(self, pod: Tree) -> list[Tree]:
        """The claims of a pod, in the order of its entries; the claim for its extended resources comes last."""
        status = pod.get("status") or {}
        created = {entry["name"]: entry.get("resourceClaimName") for entry in status.get("resourceClaimStatuses") or ()}
        entries = pod["spec"].get("resourceClaims") or ()
        names = [entry.get("resourceClaimName") or created.get(entry["name"]) for entry in entries]
        names.append((status.get("extendedResourceClaimStatus") or {}).get("resourceClaimName"))
        return [await self.client.get(CLAIMS, name, pod["metadata"]["namespace"]) for name in names if name]

    async def devices(self, pod: Tree) -> list[str]:
        """The devices of a pod's claims, in the order of their requests."""
        claims = await self.claims(pod)
        return [r["device"] for claim in claims for r in claim["status"]["allocation"]["devices"]["results"]]

    async def failed_scheduling(self, name: str, namespace: str, words: str = "") -> str:
        """The last FailedScheduling event of a pod, as kubectl describe prints it, once it contains these words."""
        messages: Sequence[str] = ()
        try:
            async with asyncio.timeout(_TIMEOUT_SECONDS):
                while not messages or words not in messages[-1]:
                    await asyncio.sleep(0.005)
                    messages = await self.warnings(name, namespace)
        except TimeoutError:
            pod = await self.pod(name, namespace)
            raise AssertionError(f"got no event with {words!r} but {messages}; {pod.get('status')}") from None
        return messages[-1]

    async def warnings(self, name: str, namespace: str) -> Sequence[str]:
        """The messages of a pod's FailedScheduling events, oldest first."""
        fields = f"involvedObject.name={name},reason=FailedScheduling"
        items = (await self.client.list(EVENTS, namespace, fields=fields)).items
        return [item["message"] for item in sorted(items, key=lambda item: int(item["metadata"]["resourceVersion"]))]


@asynccontextmanager
async def lab_harness(
    features: Features | None = None, *, fleet: Sequence[str] = (), speed: float = 20.0
) -> AsyncIterator[LabHarness]:
    """Run a new control plane until the context ends. Its clock is fast, so only real work takes time.

    It serves all versions, because manifests use old ones.
    """
    settings = Settings(
        fleet=tuple(fleet), tls=False, features=features or Features(DEFAULT_RELEASE), speed=speed,
        runtime_config=("api/all=true",),
    )  # fmt: skip
    async with running(settings) as plane:
        yield LabHarness(plane)


def _collection(tree: Tree) -> str:
    """The collection path for objects of this type, by Kubernetes' rules for plurals, even if the type does not
    exist."""
    group, _, version = str(tree.get("apiVersion", "v1")).rpartition("/")
    kind = str(tree["kind"])
    plural = f"{kind.lower()}{'es' if kind.endswith('s') else 's'}"
    root = f"/apis/{group}/{version}" if group else f"/api/{version}"
    if kind in _CLUSTER_SCOPED:
        return f"{root}/{plural}"
    return f"{root}/namespaces/{tree['metadata'].get('namespace') or 'default'}/{plural}"
