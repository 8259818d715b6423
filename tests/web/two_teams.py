"""Two teams that use the devices of a cluster, and a search for what one of them must not see of the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from allotment.model.core import Pod
from allotment.watched.view import ClusterView
from tests.web.visitors import PageServer

CLUSTER_KINDS: Final = ("Node", "ResourceSlice", "DeviceClass", "DeviceTaintRule", "PersistentVolume", "StorageClass")
#: Words that only occur in the names of objects of the other namespace.
SECRETS: Final = (b"team-b", b"zebra", b"giraffe", b"okapi")


def workload(namespace: str, name: str, count: int, device_class: str = "gpu.nvidia.com") -> str:
    """A template and pods that use it."""
    pods = "".join(
        f"""
---
apiVersion: v1
kind: Pod
metadata: {{name: {name}-{number}, namespace: {namespace}, labels: {{app: {name}}}}}
spec:
  containers: [{{name: {name}-main, image: "registry.k8s.io/pause:3.9", resources: {{claims: [{{name: gpu}}]}}}}]
  resourceClaims: [{{name: gpu, resourceClaimTemplateName: {name}}}]
"""
        for number in range(count)
    )
    return f"""
apiVersion: v1
kind: Namespace
metadata: {{name: {namespace}}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {{name: {name}, namespace: {namespace}}}
spec: {{spec: {{devices: {{requests: [{{name: {name}-gpu, exactly: {{deviceClassName: {device_class}}}}}]}}}}}}
{pods}"""


#: The pods of both teams that run, and that are pending.
MANIFESTS: Final = (
    workload("team-a", "lion", 2), workload("team-b", "zebra", 3),
    workload("team-a", "tiger", 1, "none.example.com"), workload("team-b", "okapi", 1, "giraffe.example.com"),
)  # fmt: skip
#: The number of devices that they use.
IN_USE: Final = 5


def addresses(view: ClusterView) -> Iterator[tuple[str, object]]:
    """Every address that the page has for the objects of the lab, with what is posted there."""
    for path in ("/", "/map", "/map?since=1", "/pending", "/ask", "/objects", "/objects?q=zebra", "/what-if", "/money",
                 "/history", "/api/v1/free", "/api/v1/why", "/api/v1/openapi.json", "/nothing"):  # fmt: skip
        yield path, None
    for kind, key in view.objects:
        word = {"Node": "node", "ResourceSlice": "slice", "ResourceClaim": "claim", "Pod": "pod"}.get(kind, "")
        word = word or {"ResourceClaimTemplate": "template", "DeviceClass": "class"}.get(kind, "")
        if word:
            namespace = f"{key.namespace}/" if key.namespace else ""
            if key.namespace != "team-b":  # the address itself would contain the name
                yield f"/objects/{word}/{namespace}{key.name}", None
    for node in view.free.nodes:
        for device in node.devices:
            yield f"/objects/device/{device.pool}/{device.device}", None
        yield f"/what-if?change=drain:{node.node}", None
    yield "/ask", {"text": workload("team-a", "new", 9), "on": "cluster"}
    yield "/what-if", {"changes": [{"action": "remove", "target": view.free.nodes[0].node}]}
    yield "/api/v1/would-fit", {"manifests": workload("team-a", "new", 9)}
    yield "/api/v1/what-if", {"changes": [{"action": "drain", "target": view.free.nodes[0].node}]}


def is_complete(view: ClusterView) -> bool:
    """Whether all pods of both teams are known, and those that fit have their devices."""
    pods = {pod.metadata.name for pod in view.inputs.of(Pod)}
    return view.connected and {"tiger-0", "okapi-0"} <= pods and view.free.count("in-use") == IN_USE


def leaks(server: PageServer, view: ClusterView, token: str) -> list[tuple[str, bytes]]:
    """The addresses whose responses to a user of team-a contain a name of team-b, byte by byte, with the name.

    Most addresses must have an answer.
    """
    found, answered = [], 0
    for path, body in addresses(view):
        reply = server.send(path, token, body)
        assert reply.status < 500, (path, reply.body)
        requested = path.encode()
        found += [(path, name) for name in SECRETS if name not in requested and name in reply.everything]
        answered += reply.status == 200
    assert answered > 20
    return found + [("/events", name) for name in SECRETS if name in server.first_event(token)]
