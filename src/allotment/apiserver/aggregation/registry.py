"""The aggregated APIs of a server: follows APIServices, keeps their conditions, and adds those of its own groups."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

from allotment.apiserver import deletion
from allotment.apiserver.aggregation.availability import AggregatedApi, Outcome, aggregated_api, check
from allotment.apiserver.aggregation.priorities import CUSTOM_PRIORITIES, priorities
from allotment.apiserver.custom_resources.definitions import DEFINITIONS
from allotment.apiserver.kinds.api_services import BUCKET, with_condition
from allotment.apiserver.operation import Operation, server_operation
from allotment.apiserver.request_options import DeleteOptions
from allotment.apiserver.storage.store import Change
from allotment.apiserver.verbs import Verbs
from allotment.cluster.errors import StatusError
from allotment.model.trees import Tree

log = logging.getLogger(__name__)

_AUTOMANAGED: Final = "kube-aggregator.kubernetes.io/automanaged"
#: What the availability of an API depends on, besides its server.
_WATCHED: Final = ("services", "endpointslices.discovery.k8s.io")
#: Seconds between checks of a server that is available, and after the first failed one.
_INTERVAL: Final = 30.0
_FIRST_RETRY: Final = 1.0


class ServedApi(NamedTuple):
    """An aggregated API with the result of its last check."""

    api: AggregatedApi
    outcome: Outcome | None = None

    @property
    def resources(self) -> Sequence[Tree]:
        """The resources that its server lists; empty if it is not available."""
        return () if self.outcome is None else self.outcome.resources or ()


class _Check(NamedTuple):
    """The task that checks an API again and again; ``wake``: set to check it immediately."""

    task: asyncio.Task[None]
    wake: asyncio.Event


class AggregatedApis:
    """The aggregated APIs, by group and version. Nothing is checked or written before :meth:`begin`."""

    def __init__(self, verbs: Verbs) -> None:
        self._verbs = verbs
        self._apis: dict[tuple[str, str], ServedApi] = {}
        self._checks: dict[str, _Check] = {}
        self._stop: list[Callable[[], None]] = [verbs.store.subscribe(BUCKET, self._changed)]
        self._is_started = False
        self._identity: tuple[str, str] | None = None
        #: Incremented when what discovery shows changes.
        self.generation = 0
        for entry in verbs.store.list(BUCKET):
            self._follow(entry.tree)

    def __bool__(self) -> bool:
        return bool(self._apis)

    def __iter__(self) -> Iterator[ServedApi]:
        return iter(self._apis.values())

    def find(self, group: str, version: str) -> ServedApi | None:
        """The API of a group and version, if another server serves it."""
        return self._apis.get((group, version))

    def begin(self, identity: tuple[str, str] | None = None) -> None:
        """Add the APIServices of this server's groups, and check the servers of all others; needs a running event loop.

        ``identity``: the files of the certificate and key that the server shows to others.
        """
        self._is_started = True
        self._identity = identity
        if self._verbs.catalog.find("apiregistration.k8s.io", "v1", "apiservices") is None:
            return
        for entry in self._verbs.store.list(BUCKET):
            self._follow(entry.tree)
        self._stop += [self._verbs.store.subscribe(bucket, self._dependency_changed) for bucket in _WATCHED]
        self._stop.append(self._verbs.store.subscribe(DEFINITIONS, lambda change: self._add_custom()))
        for kind in self._verbs.catalog.built_in:
            for version in kind.versions:
                group, of_version = priorities(kind.group, version)
                self._add(kind.group, version, group, of_version, "onstart")
        self._add_custom()
        for served in self:
            self._start(served.api)

    async def close(self) -> None:
        """Stop following and checking."""
        for stop in self._stop:
            stop()
        tasks = [running.task for running in self._checks.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    # --- following ---------------------------------------------------------------------------------------------------

    def _changed(self, change: Change) -> None:
        name = change.entry.name
        if change.type == "DELETED":
            self._forget(name)
            return
        api = self._follow(change.entry.tree)
        if api is None or not self._is_started:
            return
        if change.previous is None or change.previous.tree["spec"] != change.entry.tree["spec"]:
            self._start(api)

    def _follow(self, tree: Tree) -> AggregatedApi | None:
        name = tree["metadata"]["name"]
        api = aggregated_api(tree, self._identity)
        known = next((served for served in self if served.api.name == name), None)
        if api is None:
            self._forget(name)
        elif known is None or known.api != api:
            self._forget(name)
            self._apis[api.group, api.version] = ServedApi(api)
            self.generation += 1
        return api

    def _forget(self, name: str) -> None:
        for key, served in tuple(self._apis.items()):
            if served.api.name == name:
                del self._apis[key]
                self.generation += 1
        self._stop_checking(name)

    def _dependency_changed(self, change: Change) -> None:
        for served in self:
            server = served.api.target.server
            if change.entry.namespace == server[0] and (running := self._checks.get(served.api.name)) is not None:
                running.wake.set()

    # --- checking ----------------------------------------------------------------------------------------------------

    def _start(self, api: AggregatedApi) -> None:
        self._stop_checking(api.name)
        wake = asyncio.Event()
        task = asyncio.get_running_loop().create_task(self._keep_checking(api, wake))
        self._checks[api.name] = _Check(task, wake)

    def _stop_checking(self, name: str) -> None:
        if (running := self._checks.pop(name, None)) is not None:
            running.task.cancel()

    async def _keep_checking(self, api: AggregatedApi, wake: asyncio.Event) -> None:
        retry = _FIRST_RETRY
        while True:
            wake.clear()
            outcome = await check(api, self._verbs.store, self._verbs.outbound)
            self._record(api, outcome)
            retry = _FIRST_RETRY if outcome.is_available else min(retry * 2, _INTERVAL)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_INTERVAL if outcome.is_available else retry):
                    await wake.wait()

    def _record(self, api: AggregatedApi, outcome: Outcome) -> None:
        known = self._apis.get((api.group, api.version))
        if known is None or known.api != api:
            return
        if known.outcome != outcome:
            self._apis[api.group, api.version] = ServedApi(api, outcome)
            self.generation += 1
        entry = self._verbs.store.get(BUCKET, "", api.name)
        if entry is None:
            return
        status = "True" if outcome.is_available else "False"
        tree = with_condition(entry.tree, status, outcome.reason, outcome.message, self._verbs.now())
        self._write(lambda: self._verbs.update(self._operation(api.name, "status"), tree))

    # --- the groups of this server -----------------------------------------------------------------------------------

    def _add_custom(self) -> None:
        """Add and remove the APIServices of custom resources."""
        wanted = {f"{version}.{kind.group}" for kind in self._verbs.catalog.custom for version in kind.versions}
        for kind in self._verbs.catalog.custom:
            for version in kind.versions:
                self._add(kind.group, version, *CUSTOM_PRIORITIES, "true")
        for entry in tuple(self._verbs.store.list(BUCKET)):
            labels = entry.tree["metadata"].get("labels") or {}
            if labels.get(_AUTOMANAGED) == "true" and entry.name not in wanted:
                self._write(partial(deletion.delete, self._verbs, self._operation(entry.name), DeleteOptions()))

    def _add(self, group: str, version: str, group_priority: int, version_priority: int, managed: str) -> None:
        name = f"{version}.{group}"
        if self._verbs.store.get(BUCKET, "", name) is not None:
            return
        spec: Tree = {"group": group, "version": version}
        spec |= {"groupPriorityMinimum": group_priority, "versionPriority": version_priority}
        tree = {"metadata": {"name": name, "labels": {_AUTOMANAGED: managed}}, "spec": spec}
        self._write(lambda: self._verbs.create(self._operation(""), tree))

    def _operation(self, name: str, subresource: str = "") -> Operation:
        kind = self._verbs.catalog.find("apiregistration.k8s.io", "v1", "apiservices")
        assert kind is not None, "APIServices are served"
        return server_operation(kind, "v1", "", name, subresource)

    def _write(self, write: Callable[[], object]) -> None:
        try:
            write()
        except StatusError as error:
            log.warning("cannot write an APIService: %s", error)
