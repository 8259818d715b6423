"""The kubelets of many nodes in one program: each pod bound to one of them runs until it is deleted.

A node with the annotation ``allotment.dev/simulated`` is simulated. Pods on other nodes are ignored unless the program
has a machine configuration for the node.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import Final

from allotment.cluster.program import ProgramContext
from allotment.model.trees import Tree
from allotment.node import kubelet_api
from allotment.node.agent import Agent
from allotment.node.claims import NodeClaims
from allotment.node.kubelet_features import DEFAULT_FEATURES, KubeletFeatures
from allotment.node.node_config import Machine
from allotment.node.node_status import NodeStatuses
from allotment.node.plugins import Plugins
from allotment.node.pod_lifecycle import PodRun
from allotment.node.runtimes.runtime import Connection
from allotment.node.runtimes.simulated import SimulatedRuntime

SIMULATED: Final = "allotment.dev/simulated"


class Kubelets:
    """The kubelets of the nodes, with their log, exec, attach and port-forward endpoints. :meth:`run` is the program.

    ``plugins``: the drivers of the nodes. ``machines``: machine configurations by node name; other nodes are
    simulated. Both may be extended at any time. ``simulated``: whether all simulated nodes are served, or only those
    in ``machines``. ``features``: what the release and the feature gates of the cluster decide. ``unknown_commands``:
    whether simulated containers succeed with commands that are not known.
    """

    def __init__(
        self, plugins: Plugins | None = None, machines: Mapping[str, Machine] | None = None, *,
        simulated: bool = True, features: KubeletFeatures = DEFAULT_FEATURES, unknown_commands: bool = False,
    ) -> None:  # fmt: skip
        self.plugins = Plugins() if plugins is None else plugins
        self.machines: Mapping[str, Machine] = {} if machines is None else machines
        self._simulated = simulated
        self._features = features
        self._unknown_commands = unknown_commands
        self._claims: dict[str, NodeClaims] = {}
        self._agent: Agent | None = None

    def find(self, uid: str) -> PodRun | None:
        """The run of the pod with this uid; None if it does not run on a served node (yet)."""
        return self._agent.find(uid) if self._agent is not None else None

    async def run(self, context: ProgramContext, ready: asyncio.Event | None = None) -> None:
        """Report the status of all served nodes and run their pods until cancelled. Only pods wait for ``ready``."""
        async with asyncio.TaskGroup() as group:
            group.create_task(
                NodeStatuses(context, self._serves, self._features.declared).run(), name="status of nodes"
            )
            if ready is not None:
                await ready.wait()
            runtime = SimulatedRuntime(context.clock, unknown_commands=self._unknown_commands)
            self._agent = Agent(
                context, self.plugins, self.machines, self._serves, self._claims, self._features, runtime
            )
            try:
                await self._agent.run()
            finally:
                self._agent = None

    def _serves(self, node: Tree) -> bool:
        if node["metadata"]["name"] in self.machines:
            return True
        return self._simulated and SIMULATED in (node["metadata"].get("annotations") or {})

    # --- client endpoints -----------------------------------------------------------------------------------------

    def metrics(self, node: Tree) -> bytes | None:
        """The metrics of a node; None if it is not served, or if kubelets of its release do not have any of them."""
        if not self._features.metrics or not self._serves(node):
            return None
        claims = self._claims.get(node["metadata"]["name"])
        return kubelet_api.metrics(claims.skip_counts if claims is not None else {}, self._features.metrics)

    def logs(
        self, pod: Tree, container: str, *, follow: bool, previous: bool, timestamps: bool, tail: int | None,
        since: datetime | None, since_seconds: int | None,
    ) -> AsyncIterator[bytes]:  # fmt: skip
        """A container's log. Raises StatusError if it has not started yet."""
        found = kubelet_api.running(self._of(pod), pod, container)
        return kubelet_api.logs(
            found, follow=follow, previous=previous, timestamps=timestamps, tail=tail, since=since,
            since_seconds=since_seconds,
        )  # fmt: skip

    async def exec(
        self, pod: Tree, container: str, command: Sequence[str], *, stdin: AsyncIterator[bytes] | None,
        stdout: kubelet_api.Write, stderr: kubelet_api.Write, tty: bool, sizes: AsyncIterator[tuple[int, int]],
    ) -> int:  # fmt: skip
        """Run a command in a container and return its exit code."""
        found = kubelet_api.running(self._of(pod), pod, container)
        return await kubelet_api.command(found, command, stdin=stdin, stdout=stdout, stderr=stderr, tty=tty)

    async def attach(
        self, pod: Tree, container: str, *, stdin: AsyncIterator[bytes] | None, stdout: kubelet_api.Write,
        stderr: kubelet_api.Write, tty: bool, sizes: AsyncIterator[tuple[int, int]],
    ) -> int:  # fmt: skip
        """Stream a container's output and input; returns 0 when it ends."""
        return await kubelet_api.attach(kubelet_api.running(self._of(pod), pod, container), stdin, stdout, tty=tty)

    async def port(self, pod: Tree, port: int) -> Connection:
        """Connect to a port of a pod. Raises OSError if no process listens."""
        return await kubelet_api.port(self._of(pod), pod, port)

    def _of(self, pod: Tree) -> PodRun | None:
        return self.find(pod["metadata"]["uid"])
