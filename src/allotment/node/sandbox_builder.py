"""The node context of a pod, and the sandbox (runtime input) for a container's run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from random import Random
from typing import NamedTuple

from allotment.cdi.lookup import CdiDevices, UnresolvableDevices
from allotment.cdi.spec import ContainerEdits
from allotment.cluster.client import Client
from allotment.cluster.clock import Clock
from allotment.cluster.recorder import Recorder
from allotment.model.trees import Tree
from allotment.node import volumes
from allotment.node.claims import NodeClaims
from allotment.node.container_files import Directory, MountedVolume
from allotment.node.device_health import DeviceHealths, allocated
from allotment.node.device_view import ContainerDevice, identified
from allotment.node.environment import environment_of, resolved
from allotment.node.pod_mounts import PersistentVolumes
from allotment.node.pod_network import PodNetwork
from allotment.node.runtimes.runtime import NotStarted, Runtime, Sandbox
from allotment.node.simulated_volumes import simulated_volumes


class NodeContext(NamedTuple):
    """A node, as its pods have it.

    ``tree()``: the Node object now; ``devices``: those of a container, as shown; ``services``: those of a namespace;
    ``others``: the pods of the node without the one with a uid; ``host_files``: those of ``hostPath`` volumes of
    simulated containers.
    """

    name: str
    tree: Callable[[], Tree]
    client: Client
    clock: Clock
    random: Random
    recorder: Recorder
    runtime: Runtime
    cdi: CdiDevices
    claims: NodeClaims
    healths: DeviceHealths
    devices: Callable[[Tree, Tree, Mapping[str, Tree]], tuple[ContainerDevice, ...]]
    services: Callable[[str], Iterable[Tree]]
    persistent: PersistentVolumes
    host_files: Directory
    network: PodNetwork
    others: Callable[[str], Iterable[Tree]] = lambda uid: ()
    state: Path | None = None

    def host_ip(self) -> str:
        """The node's address."""
        return address_of(self.tree())

    def allocated(self, pod: Tree, spec: Tree) -> list[Tree]:
        """A container's ``allocatedResourcesStatus``."""
        return allocated(self.name, pod, spec, self.claims, self.healths)

    async def sandbox(
        self, pod: Callable[[], Tree], spec: Tree, pod_ip: str, claims: Mapping[str, Tree],
        shared: dict[str, Directory],
    ) -> Sandbox:  # fmt: skip
        """Build the input for a container's next run. ``claims``: by their names in the pod. Raises NotStarted.

        ``shared``: the volumes that simulated containers of the pod share.
        """
        now = pod()
        in_memory: Mapping[str, MountedVolume] = {}
        if not self.runtime.real:
            in_memory = await simulated_volumes(
                pod, spec, shared, self.host_files, client=self.client, pod_ip=pod_ip, node=self.tree
            )
        built = await self._sandbox(now, spec, pod_ip, claims)
        return built._replace(volumes=in_memory, network=self.network)

    async def _sandbox(self, pod: Tree, spec: Tree, pod_ip: str, claims: Mapping[str, Tree]) -> Sandbox:
        devices = self.devices(pod, spec, claims)
        ids = self.claims.cdi_ids(pod, spec)
        environment = await environment_of(
            pod, spec, node=self.tree(), pod_ip=pod_ip, devices=() if ids else devices, services=self.services,
            client=self.client,
        )  # fmt: skip
        try:
            mounts = await volumes.mounts(self.state, pod, spec, client=self.client, pod_ip=pod_ip, node=self.tree())
        except OSError as error:
            raise NotStarted("CreateContainerConfigError", f"failed to prepare volumes: {error}") from error
        words = tuple(resolved(word, environment) for word in (*spec.get("command", ()), *spec.get("args", ())))
        edits = self._edits(ids)
        return Sandbox(pod, spec, words, environment, edits, identified(devices, edits.env), pod_ip, mounts)

    def _edits(self, ids: tuple[str, ...]) -> ContainerEdits:
        if not ids:
            return ContainerEdits()
        try:
            return self.cdi.edits(ids)
        except UnresolvableDevices as error:
            raise NotStarted(
                "CreateContainerError", f"failed to create container: CDI device injection failed: {error}"
            ) from error


def address_of(node: Tree) -> str:
    """A node's InternalIP; 127.0.0.1 if it has none."""
    addresses = (node.get("status") or {}).get("addresses") or ()
    return next((str(entry["address"]) for entry in addresses if entry.get("type") == "InternalIP"), "127.0.0.1")
