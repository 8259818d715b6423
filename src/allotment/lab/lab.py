"""``allotment.Lab``: a Kubernetes-compatible control plane with simulated GPU nodes, in a thread of this process.

>>> with Lab(fleet="t4-4x-pcie") as lab:
...     _ = lab.apply('''
... apiVersion: resource.k8s.io/v1
... kind: ResourceClaim
... metadata: {name: one-gpu}
... spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}]}}
... ''')
...     lab.get("resourceclaim", "one-gpu")["metadata"]["namespace"]
'default'
"""

from __future__ import annotations

import asyncio
import builtins
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from allotment.cluster.client import Client, Resource
from allotment.cluster.errors import StatusError
from allotment.cluster.object_watch import states
from allotment.files import atomic_write
from allotment.files.atomic_write import Sync
from allotment.lab import kubeconfig, unmet_conditions, wait_conditions
from allotment.lab.control_plane import Plane, running
from allotment.lab.kinds import UnknownKind, by_object, by_word
from allotment.lab.manifests import Source, documents, not_applied
from allotment.lab.pod_http import http_get
from allotment.lab.programs import excluded_programs
from allotment.lab.runtimes import RuntimeName
from allotment.lab.settings import (
    Settings,
    UnknownCommands,
    checked_fleet,
    checked_images,
    checked_runtime,
    checked_speed,
    checked_unknown_commands,
    features_of,
    made_roots,
)
from allotment.lab.state import DEFAULT_NAME, DataFolder, context_of
from allotment.lab.sync import LoopThread, SyncClient
from allotment.lab.wait_conditions import Test
from allotment.model import DEFAULT_RELEASE
from allotment.model.loading import Document
from allotment.model.trees import Tree

if TYPE_CHECKING:
    from allotment.lab.autoscaling import Autoscale


class Lab:
    """A lab in a thread of this process. Use it as a context manager, or call :meth:`start` and :meth:`stop`.

    Its methods block. They can be called in any thread, also in one that runs an event loop. An argument that cannot
    be used raises InputError.

    ``fleet``: the machines, in the syntax of ``allot up --fleet``; by default those of ``data``, else none. ``data``:
    a folder for the cluster's data; without one they are deleted with the lab. ``gates``: feature gates that differ
    from the release's defaults. ``runtime_config``: API versions to serve besides the release's defaults, as with
    kube-apiserver's flag (``api/all=true``, ``resource.k8s.io/v1beta1=true``). ``without``: components to leave out
    because you run your own (``scheduler``, …). ``runtime``: ``process`` runs containers as processes on this machine,
    with your permissions, but only those whose image is in the file ``images``; without a file, only the demo
    application (:mod:`allotment.node.runtimes.images`). ``autoscale``: instance types to provision for pending pods
    (``aws,gcp``, a catalog file, or an :class:`~allotment.lab.autoscaling.Autoscale`); ``cloud``: the cloud's faults
    (``aws/g5.*=no-capacity``). ``kubelet_roots``: a folder in which external drivers register for the nodes, as with
    ``allot up --kubelet-roots``. ``unknown_commands``: ``succeed`` lets Jobs and init containers succeed whose command
    the lab does not know. ``tls``: off by default, because a user who can start a lab in a test can also reach
    its port.

    Until a driver registers on a node for the first time, preparation for its devices is simulated: pods with slices
    that have no driver run, as if the driver had nothing to do. Afterwards, they stay in ``ContainerCreating`` while it
    is not registered.
    """

    def __init__(
        self, fleet: str | Sequence[str] | None = None, *, data: str | Path | None = None, kube: str = DEFAULT_RELEASE,
        gates: dict[str, bool] | None = None, port: int = 0, speed: float = 1.0, tls: bool = False,
        name: str = DEFAULT_NAME, without: Iterable[str] = (), runtime: RuntimeName = "simulated",
        images: str | Path | None = None, autoscale: str | Path | Autoscale | None = None,
        cloud: str | Iterable[str] = (),
        runtime_config: Iterable[str] = (), kubelet_roots: str | Path | None = None,
        unknown_commands: UnknownCommands = "fail",
    ) -> None:  # fmt: skip
        folder = None if data is None else DataFolder(Path(data))
        self._settings = Settings(
            name=name,
            fleet=checked_fleet(fleet),
            data=folder,
            port=port,
            tls=tls,
            speed=checked_speed(speed),
            features=features_of(kube, gates or {}),
            runtime_config=tuple(runtime_config),
            without=excluded_programs(without),
            runtime=checked_runtime(runtime),
            images=checked_images(images, runtime),
            unknown_commands=checked_unknown_commands(unknown_commands),
            roots=None if kubelet_roots is None else made_roots(kubelet_roots),
            autoscale=_autoscale(autoscale, cloud),
        )
        self._thread: LoopThread | None = None
        self._running = AsyncExitStack()
        self._plane: Plane | None = None
        self._applied: list[tuple[Resource, str, str]] = []
        self._files: tempfile.TemporaryDirectory[str] | None = None

    def __repr__(self) -> str:
        return f"<Lab {self._settings.name!r} {f'at {self.url}' if self._plane else 'not running'}>"

    # --- life --------------------------------------------------------------------------------------------------------

    def start(self) -> Lab:
        """Start the lab; return it when the API responds and the fleet is published."""
        if self._thread is not None:
            raise RuntimeError("the lab is already running")
        self._thread = LoopThread("allotment-lab")
        try:
            self._plane = self._thread.wait(self._running.enter_async_context(running(self._settings)))
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stop the lab, and end the watches of all threads; no error if it is not running."""
        thread, self._thread, self._plane = self._thread, None, None
        try:
            if thread is not None:
                thread.stop(self._running.aclose())
        finally:
            if self._files is not None:
                self._files.cleanup()
                self._files = None

    def __enter__(self) -> Lab:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # --- access -----------------------------------------------------------------------------------------------------

    @property
    def plane(self) -> Plane:
        """The control plane (store, API, asynchronous clients), which runs in another thread."""
        if self._plane is None:
            raise RuntimeError("the lab is not running: use it as a context manager, or call start()")
        return self._plane

    @property
    def url(self) -> str:
        """The URL of the API."""
        return self.plane.access.server

    @property
    def client(self) -> SyncClient:
        """A client with all API operations, as the administrator."""
        return SyncClient(self._loop, self.plane.client())

    def client_for(self, user: str, groups: Sequence[str] = ()) -> SyncClient:
        """Return a client with all API operations, as another user, who has only the permissions that RBAC grants.

        ``groups``: in addition to ``system:authenticated`` and the groups of service accounts. Members of
        ``system:masters`` have all permissions.
        """
        return SyncClient(self._loop, self.plane.client(user, groups))

    @property
    def kubeconfig(self) -> Path:
        """The path of a kubeconfig file for kubectl and other clients; the file is deleted with the lab."""
        if self._files is None:
            self._files = tempfile.TemporaryDirectory(prefix="allotment-")
        path = Path(self._files.name) / "config"
        text = kubeconfig.text(context_of(self._settings.name), self.plane.access)
        atomic_write.replace(path, text.encode(), sync=Sync.NONE)
        return path

    @property
    def _loop(self) -> LoopThread:
        if self._thread is None:
            raise RuntimeError("the lab is not running: use it as a context manager, or call start()")
        return self._thread

    def resource(self, word: str) -> Resource:
        """Return the resource of a name: ``pod``, ``po``, ``deployments.apps``, or a custom kind."""
        return by_word(self.plane.kinds(), word)

    # --- objects ----------------------------------------------------------------------------------------------

    def apply(self, source: Source, *, namespace: str = "default") -> list[Tree]:
        """Apply manifests: a path, text, an object, loaded manifests, or several of these. Returns the objects.

        Objects are written as by ``kubectl apply --server-side --force-conflicts``; those without a namespace go to
        ``namespace``. Raises NotApplied.
        """
        return self._loop.wait(self._apply(list(documents(source)), namespace))

    async def _apply(self, documents: Sequence[tuple[Tree, Document | None]], namespace: str) -> list[Tree]:
        client = self.plane.client("allotment-admin")
        written = []
        for tree, document in documents:
            try:
                resource = by_object(self.plane.kinds(), tree)
                written.append(await _applied(client, resource, tree, namespace))
            except (StatusError, UnknownKind) as error:
                raise not_applied(document, error) from error
            meta = written[-1]["metadata"]
            self._applied.append((resource, meta.get("namespace", ""), meta["name"]))
        return written

    def delete(self, source: Source, name: str = "", *, namespace: str = "default", timeout: float = 30.0) -> None:
        """Delete the objects of manifests, or (``delete("pod", "a")``) one by name. Missing objects are not an error.

        Returns when they are deleted; raises TimeoutError, with the blockers, if they are not.
        """
        if name:
            targets = [(self.resource(str(source)), namespace, name)]
        else:
            targets = [self._target(tree, namespace) for tree, _ in reversed(list(documents(source)))]
        self._loop.wait(
            self._delete([(kind, ns if kind.namespaced else "", name) for kind, ns, name in targets], timeout)
        )

    async def _delete(self, targets: Sequence[tuple[Resource, str, str]], timeout: float) -> None:
        client = self.plane.client("allotment-admin")
        held: dict[tuple[Resource, str, str], Tree] = {}

        async def gone(resource: Resource, namespace: str, name: str) -> None:
            async for tree in states(client, resource, namespace, name):
                if tree is None or "deletionTimestamp" not in tree["metadata"]:  # or another one of that name
                    held.pop((resource, namespace, name), None)
                    return
                held[resource, namespace, name] = tree

        for resource, namespace, name in targets:
            try:
                await client.delete(resource, name, namespace)
            except StatusError as error:
                if error.reason != "NotFound":
                    raise
        try:
            async with asyncio.timeout(timeout), asyncio.TaskGroup() as group:
                for target in targets:
                    group.create_task(gone(*target))
        except TimeoutError:
            lines = [
                f"{kind.kind.lower()}/{name}: {wait_conditions.deletion_blockers(tree)}"
                for (kind, _, name), tree in held.items()
            ]
            raise TimeoutError(f"not deleted after {timeout:g} s:\n" + "\n".join(lines)) from None
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None

    def _target(self, tree: Tree, namespace: str) -> tuple[Resource, str, str]:
        meta = tree.get("metadata") or {}
        resource = by_object(self.plane.kinds(), tree)
        return resource, meta.get("namespace") or namespace, str(meta.get("name"))

    def get(self, kind: str, name: str, *, namespace: str = "default") -> Tree:
        """Get one object. Raises StatusError if it is not found."""
        resource = self.resource(kind)
        return self.client.get(resource, name, namespace if resource.namespaced else "")

    def list(self, kind: str, *, namespace: str | None = None, labels: str = "", fields: str = "") -> Sequence[Tree]:
        """List all objects of a kind, in all namespaces or in one."""
        return self.client.list(self.resource(kind), namespace or "", labels=labels, fields=fields).items

    def http_get(self, pod: Tree, port: int, path: str = "/") -> bytes:
        """Send a GET request to a pod's port, as through ``kubectl port-forward``; return the body. Raises NoAnswer."""
        return self._loop.wait(http_get(self.plane.environment.kubelets, pod, port, path))

    def wait(
        self, *targets: str, until: str | Test | None = None, timeout: float = 30.0, namespace: str = "default"
    ) -> builtins.list[Tree]:
        """Wait for objects (``"pod/a"``; by default all applied ones) and return their final state.

        ``until``: a condition type, ``phase=Running``, ``allocated``, or a function of the object. The default depends
        on the kind: a pod is ready or has succeeded, a claim is allocated, a workload has its replicas. Raises
        TimeoutError with the reason, for a workload or a claim that of its pods, and what the function raises.
        """
        wanted = [self._named(target, namespace) for target in targets] or list(dict.fromkeys(self._applied))
        return self._loop.wait(self._wait(wanted, until, timeout))

    def _named(self, target: str, namespace: str) -> tuple[Resource, str, str]:
        kind, slash, name = target.partition("/")
        if not slash:
            raise ValueError(f"expected KIND/NAME, found {target!r}")
        resource = self.resource(kind)
        return resource, namespace if resource.namespaced else "", name

    async def _wait(
        self, wanted: Iterable[tuple[Resource, str, str]], until: str | Test | None, timeout: float
    ) -> builtins.list[Tree]:
        client = self.plane.client("allotment-admin")
        targets = list(wanted)
        seen: dict[int, Tree | None] = {}
        found: dict[int, Tree] = {}

        async def awaited(number: int) -> None:
            resource, namespace, name = targets[number]
            async for tree in states(client, resource, namespace, name):
                seen[number] = tree
                if tree is not None and wait_conditions.predicate_for(until, resource.kind)(tree):
                    found[number] = tree
                    return

        try:
            async with asyncio.timeout(timeout), asyncio.TaskGroup() as group:
                for number in range(len(targets)):
                    group.create_task(awaited(number))
        except TimeoutError:
            lines = [
                f"{kind.kind.lower()}/{name}: {await unmet_conditions.reason(client, kind.kind, seen.get(number))}"
                for number, (kind, _, name) in enumerate(targets)
                if number not in found
            ]
            unmet = wait_conditions.described(until) or "conditions"
            raise TimeoutError(f"{unmet} not met after {timeout:g} s:\n" + "\n".join(lines)) from None
        except ExceptionGroup as errors:  # of the function, or of a request
            raise errors.exceptions[0] from None
        return [found[number] for number in range(len(targets))]


def _autoscale(offer: str | Path | Autoscale | None, cloud: str | Iterable[str]) -> Autoscale | None:
    if offer is None and not cloud:
        return None
    from allotment.lab.autoscaling import autoscale_of

    return autoscale_of(offer, cloud)


async def _applied(client: Client, resource: Resource, tree: Tree, namespace: str) -> Tree:
    meta = tree.get("metadata") or {}
    inside = (meta.get("namespace") or namespace) if resource.namespaced else ""
    if not meta.get("name") and meta.get("generateName"):
        return await client.create(resource, tree, inside)
    return await client.patch(resource, str(meta.get("name", "")), tree, inside, kind="apply", force=True)
