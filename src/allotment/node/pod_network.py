"""The network between the simulated pods of a lab, as far as their commands use it: names, Services and connections."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, NamedTuple

from allotment.model.trees import Tree
from allotment.node.runtimes.runtime import Connection

_SERVICE: Final = re.compile(r"([a-z0-9-]+)(?:\.([a-z0-9-]+)(?:\.svc(?:\.cluster\.local)?)?)?\.?")
_ADDRESS: Final = re.compile(r"[0-9.]+|[0-9a-f:]*:[0-9a-f:]*")


class UnknownHost(Exception):
    """Raised for a name that no Service and no pod has."""


class PodNetwork(NamedTuple):
    """The pods and Services of a cluster. ``connect``: to a port of a pod that runs; raises OSError."""

    pods: Callable[[], Iterable[Tree]]
    services: Callable[[str], Iterable[Tree]]
    connect: Callable[[Tree, int], Awaitable[Connection]]

    def addresses(self, pod: Tree, host: str) -> list[str]:
        """The addresses of a host, as seen from a pod. Raises UnknownHost."""
        if host == "localhost":
            return ["127.0.0.1"]
        if _ADDRESS.fullmatch(host):
            return [host]
        if host == pod["metadata"]["name"]:
            return [_address(pod)]
        service = self._service(pod, host)
        if service is None:
            raise UnknownHost(host)
        address = service["spec"].get("clusterIP") or "None"
        if address != "None":
            return [str(address)]
        found = [_address(each) for each in self._targets(service)]
        if not found:
            raise UnknownHost(host)
        return found

    async def open(self, pod: Tree, host: str, port: int) -> Connection:
        """Connect to a port of a host, as a command in a pod. Raises UnknownHost, OSError."""
        address = self.addresses(pod, host)[0]
        if address.startswith("127.") or address == _address(pod):
            return await self.connect(pod, port)
        for target in self.pods():
            if _address(target) == address and not (target["spec"].get("hostNetwork")):
                return await self.connect(target, port)
        service = self._service(pod, host) or self._with_address(address)
        if service is not None:
            for entry in service["spec"].get("ports") or ():
                if entry["port"] == port:
                    for target in self._targets(service):
                        return await self.connect(target, _target_port(entry, target))
        raise ConnectionRefusedError(f"connection to {address}:{port} refused")

    def _service(self, pod: Tree, host: str) -> Tree | None:
        found = _SERVICE.fullmatch(host)
        if found is None:
            return None
        namespace = found.group(2) or pod["metadata"].get("namespace", "")
        return next((each for each in self.services(namespace) if each["metadata"]["name"] == found.group(1)), None)

    def _with_address(self, address: str) -> Tree | None:
        namespaces = {pod["metadata"].get("namespace", "") for pod in self.pods()} | {"default", "kube-system"}
        services = (service for namespace in sorted(namespaces) for service in self.services(namespace))
        return next((each for each in services if each["spec"].get("clusterIP") == address), None)

    def _targets(self, service: Tree) -> Sequence[Tree]:
        """The ready pods that a Service selects."""
        selector, namespace = service["spec"].get("selector") or {}, service["metadata"].get("namespace")
        if not selector:
            return []
        return [
            pod
            for pod in self.pods()
            if pod["metadata"].get("namespace") == namespace
            and selector.items() <= (pod["metadata"].get("labels") or {}).items()
            and _is_ready(pod)
        ]


def _address(pod: Tree) -> str:
    return str((pod.get("status") or {}).get("podIP", ""))


def _is_ready(pod: Tree) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each.get("status") == "True" for each in conditions)


def _target_port(entry: Tree, pod: Tree) -> int:
    target = entry.get("targetPort") or entry["port"]
    if isinstance(target, int):
        return target
    for container in pod["spec"]["containers"]:
        for declared in container.get("ports") or ():
            if declared.get("name") == target:
                return int(declared["containerPort"])
    return int(entry["port"])
