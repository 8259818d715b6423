"""``allot describe``: shows details and events of objects.

Pods, nodes and the kinds of DRA have their own layouts, which add the devices that kubectl does not show.
"""

from __future__ import annotations

import asyncio
import sys
from argparse import Namespace
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from allotment.cli.describe import claims, slices
from allotment.cli.describe.events import add_events
from allotment.cli.describe.generic import generic
from allotment.cli.describe.node_devices import devices_of
from allotment.cli.describe.nodes import node
from allotment.cli.describe.page import Page
from allotment.cli.describe.pods import claims_of, pod
from allotment.cli.live.connection import namespace_of, on_cluster, refusal
from allotment.cli.live.printers import shown
from allotment.cli.live.resource_arguments import ResourceArgument, resource_arguments
from allotment.cli.output.console import visible
from allotment.cli.output.errors import Failure
from allotment.cluster.errors import StatusError
from allotment.cluster.inspection.discovery import discover
from allotment.cluster.inspection.events import events_of
from allotment.cluster.resources import CLAIMS, PODS
from allotment.model.trees import Tree

if TYPE_CHECKING:
    from allotment.cluster.remote.http_client import HttpClient


#: Layouts that need only the object.
_LAYOUTS: dict[str, Callable[[Page, Tree], None]] = {
    "ResourceClaim": claims.claim,
    "ResourceClaimTemplate": claims.template,
    "DeviceClass": claims.device_class,
    "ResourceSlice": slices.resource_slice,
}


def run(arguments: Namespace) -> int:
    """Describe objects; return 1 if one is not found."""
    return on_cluster(arguments, lambda client, way: _describe(arguments, client, namespace_of(arguments, way)))


async def _describe(arguments: Namespace, client: HttpClient, namespace: str) -> int:
    wanted = resource_arguments(await discover(client), arguments.objects)
    if (arguments.selector or arguments.all_namespaces) and any(argument.name for argument in wanted):
        raise Failure("error: name cannot be provided when a selector or --all-namespaces is specified")
    place = "" if arguments.all_namespaces else namespace
    failed = False
    count = 0
    for argument in wanted:
        try:
            trees = await _trees(client, argument, argument.place(place), arguments.selector or "")
        except StatusError as error:
            sys.stderr.write(refusal(error) + "\n")
            failed = True
            continue
        for tree in trees:
            text = await described(client, {"kind": argument.served.resource.kind, **shown(tree)})
            sys.stdout.write(("\n\n" if count else "") + visible(text))
            count += 1
    if not count and not failed:
        inside = place and all(argument.served.resource.namespaced for argument in wanted)
        sys.stderr.write(f"No resources found{f' in {place} namespace.' if inside else ''}\n")
    return 1 if failed else 0


async def _trees(client: HttpClient, argument: ResourceArgument, place: str, labels: str) -> list[Tree]:
    """Return the object of a name, else those with this prefix, as kubectl does; or all."""
    resource = argument.served.resource
    if not argument.name:
        return list((await client.list(resource, place, labels=labels)).items)
    try:
        return [await client.get(resource, argument.name, place)]
    except StatusError as error:
        if error.code != 404:
            raise
        listed = (await client.list(resource, place)).items
        found = [tree for tree in listed if tree["metadata"]["name"].startswith(argument.name)]
        if not found:
            raise
        return found


async def described(client: HttpClient, tree: Tree) -> str:
    """Return the description of an object."""
    page = Page(datetime.now(UTC))
    kind, group = tree["kind"], str(tree.get("apiVersion", "")).rpartition("/")[0]
    events = asyncio.create_task(events_of(client, tree))
    if (kind, group) == ("Pod", ""):
        pod(page, tree, await _claims(client, tree))
    elif (kind, group) == ("Node", ""):
        name = tree["metadata"]["name"]
        pods = await client.list(PODS, fields=f"spec.nodeName={name}")
        node(page, tree, pods.items, await devices_of(client, tree))
    elif group == "resource.k8s.io" and kind in _LAYOUTS:
        _LAYOUTS[kind](page, tree)
    else:
        generic(page, tree)
    add_events(page, await events)
    return page.text()


async def _claims(client: HttpClient, tree: Tree) -> dict[str, Tree]:
    """Return the claims of a pod that exist and are readable."""
    extended = ((tree.get("status") or {}).get("extendedResourceClaimStatus") or {}).get("resourceClaimName")
    names = [name for _, name, _ in claims_of(tree)] + [extended or ""]
    found: dict[str, Tree] = {}
    for name in filter(None, names):
        try:
            found[name] = await client.get(CLAIMS, name, tree["metadata"].get("namespace", ""))
        except StatusError:
            continue
    return found
