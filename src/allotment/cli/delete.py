"""``allot delete``: deletes objects, and waits until they are gone."""

from __future__ import annotations

import asyncio
import sys
from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from allotment.cli.inputs.durations import Deadline, seconds
from allotment.cli.live.connection import announce, namespace_of, on_cluster, refusal
from allotment.cli.live.manifests import documents, place_of, served_by
from allotment.cli.live.resource_arguments import resource_arguments
from allotment.cli.output.errors import Failure
from allotment.cluster.client import Client, Propagation, Resource
from allotment.cluster.errors import StatusError
from allotment.cluster.inspection.discovery import Discovery, ServedResource, discover
from allotment.cluster.object_watch import states
from allotment.cluster.remote.kubeconfig import ClusterTarget
from allotment.model.loading import Document

if TYPE_CHECKING:
    from allotment.cluster.remote.http_client import HttpClient


async def until_gone(client: Client, resource: Resource, place: str, name: str, deadline: Deadline) -> None:
    """Wait until the object is gone or replaced by another of the same name. Raises TimeoutError."""
    uid = None
    async with asyncio.timeout(deadline.left()):
        async for tree in states(client, resource, place, name):
            if tree is None or (uid is not None and tree["metadata"].get("uid") != uid):
                return
            uid = tree["metadata"].get("uid")


_PROPAGATIONS: dict[str, Propagation] = {"background": "Background", "foreground": "Foreground", "orphan": "Orphan"}


class _Object(NamedTuple):
    served: ServedResource
    place: str
    name: str

    def __str__(self) -> str:
        inside = f" from {self.place} namespace" if self.place else ""
        return f'{self.served.label} "{self.name}" deleted{inside}'


def run(arguments: Namespace) -> int:
    """Delete the objects; return 1 if one could not be deleted."""
    if bool(arguments.files) == bool(arguments.objects):
        raise Failure("error: specify manifests with -f FILE, or KIND NAME, or KIND with --all or -l")
    limit = seconds(arguments.timeout) if arguments.timeout else 0
    wanted = documents(arguments) if arguments.files else []

    async def work(client: HttpClient, way: ClusterTarget) -> int:
        announce(arguments, way)
        return await _Delete(arguments, client, way).run(wanted, limit)

    return on_cluster(arguments, work)


class _Delete:
    def __init__(self, arguments: Namespace, client: HttpClient, way: ClusterTarget) -> None:
        self._arguments = arguments
        self._client = client
        self._way = way
        self._failed = False

    async def run(self, manifests: Sequence[Document], limit: float) -> int:
        discovery = await discover(self._client)
        targets = self._from_files(discovery, manifests) if manifests else await self._from_words(discovery)
        if not targets and not self._failed:
            sys.stdout.write("No resources found\n")
        gone = []
        for target in targets:
            try:
                await self._delete(target)
            except StatusError as error:
                if error.code != 404 or not self._arguments.ignore_not_found:
                    self._fail(refusal(error))
                continue
            sys.stdout.write(f"{target}\n")
            sys.stdout.flush()
            gone.append(target)
        if self._arguments.wait:
            deadline = Deadline(limit)
            try:
                await asyncio.gather(
                    *(until_gone(self._client, t.served.resource, t.place, t.name, deadline) for t in gone)
                )
            except TimeoutError:
                self._fail("error: timed out waiting for the deletion")
        return 1 if self._failed else 0

    def _fail(self, words: str) -> None:
        self._failed = True
        sys.stderr.write(words + "\n")

    async def _delete(self, target: _Object) -> None:
        propagation = _PROPAGATIONS[self._arguments.cascade]
        grace = self._arguments.grace_period
        resource = target.served.resource
        await self._client.delete(resource, target.name, target.place, propagation=propagation, grace_seconds=grace)

    def _from_files(self, discovery: Discovery, manifests: Sequence[Document]) -> list[_Object]:
        targets = []
        for document in manifests:
            try:
                served = served_by(discovery, document)
                place = place_of(document, served, self._arguments, self._way)
            except Failure as error:
                self._fail(str(error))
                continue
            targets.append(_Object(served, place, document.name))
        return targets

    async def _from_words(self, discovery: Discovery) -> list[_Object]:
        arguments = self._arguments
        namespace = namespace_of(arguments, self._way)
        targets: list[_Object] = []
        for argument in resource_arguments(discovery, arguments.objects):
            place = argument.place(namespace)
            if argument.name:
                if arguments.selector or arguments.all:
                    raise Failure("error: name cannot be provided when a selector is specified")
                targets.append(_Object(argument.served, place, argument.name))
                continue
            if not (arguments.selector or arguments.all):
                raise Failure("error: resource(s) were provided, but no name was specified")
            found = await self._client.list(argument.served.resource, place, labels=arguments.selector or "")
            targets += (
                _Object(argument.served, str(tree["metadata"].get("namespace") or ""), tree["metadata"]["name"])
                for tree in found.items
            )
        return targets
