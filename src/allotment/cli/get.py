"""``allot get``: lists objects of a cluster, as the server's tables or in full."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING

from allotment.cli.live.connection import namespace_of, on_cluster, refusal
from allotment.cli.live.printers import Printer, as_list, name_of, printer, shown
from allotment.cli.live.resource_arguments import ResourceArgument, groups, resource_arguments, several_kinds
from allotment.cli.live.tables import ACCEPT, Layout, Query, Table, followed, listed, path_of, selection, table_of
from allotment.cli.output.console import visible
from allotment.cli.output.errors import Failure
from allotment.cli.output.tabwriter import Columns
from allotment.cluster.errors import StatusError
from allotment.cluster.inspection.discovery import ServedResource, discover
from allotment.cluster.remote.kubeconfig import ClusterTarget
from allotment.model.trees import Tree

if TYPE_CHECKING:
    from allotment.cluster.remote.http_client import HttpClient


def run(arguments: Namespace) -> int:
    """Print the requested objects; return 1 if one is not found."""
    print_object = printer(arguments.output or "")
    return on_cluster(arguments, lambda client, way: _Get(arguments, client, way, print_object).run())


class _Get:
    """One invocation, with its cluster."""

    def __init__(
        self, arguments: Namespace, client: HttpClient, way: ClusterTarget, print_object: Printer | None
    ) -> None:
        self._arguments = arguments
        self._client = client
        self._print = print_object
        self._names_only = arguments.output == "name"
        everywhere = arguments.all_namespaces
        self._namespace = "" if everywhere else namespace_of(arguments, way)
        self._query = selection(arguments.selector, arguments.field_selector)
        self._refused: list[StatusError] = []

    async def run(self) -> int:
        arguments = self._arguments
        wanted = resource_arguments(await discover(self._client), arguments.objects)
        if self._query and any(argument.name for argument in wanted):
            raise Failure("error: name cannot be provided when a selector is specified")
        if arguments.all_namespaces and any(argument.name for argument in wanted):
            raise Failure("error: a resource cannot be retrieved by name across all namespaces")
        if arguments.watch:
            if several_kinds(wanted) or len(wanted) > 1:
                raise Failure("error: you may only specify a single resource type")
            return await self._watch(wanted[0])
        found = await self._objects(wanted) if self._print or self._names_only else await self._tables(wanted)
        for refused in self._refused:
            sys.stderr.write(refusal(refused) + "\n")
        if not found and not self._refused and not arguments.ignore_not_found:
            inside = self._namespace and all(argument.served.resource.namespaced for argument in wanted)
            where = f" in {self._namespace} namespace." if inside else ""
            sys.stderr.write(f"No resources found{where}\n")
        return 1 if self._refused else 0

    def _layout(self, served: ServedResource, label: bool) -> Layout:
        arguments = self._arguments
        everywhere = arguments.all_namespaces and served.resource.namespaced
        return Layout(arguments.output == "wide", everywhere, arguments.show_labels, served.label if label else "")

    async def _tables(self, wanted: Sequence[ResourceArgument]) -> int:
        """Print a table for each kind with objects, separated by blank lines."""
        label = several_kinds(wanted)
        count = 0
        for served, group in groups(wanted):
            table = Table()
            for each in group:
                await self._add(table, each)
            if not table.rows:
                continue
            if count:
                sys.stdout.write("\n")
            count += len(table.rows)
            self._write(Columns(), table, self._layout(served, label), header=True)
        return count

    async def _add(self, table: Table, each: ResourceArgument) -> None:
        resource, place = each.served.resource, each.place(self._namespace)
        try:
            if each.name:
                part = await table_of(self._client, resource, place, each.name)
            else:
                part = await listed(self._client, resource, place, self._query)
        except StatusError as error:
            self._refuse(error)
            return
        table.columns = part.columns
        table.rows += part.rows

    def _refuse(self, error: StatusError) -> None:
        if not (error.code == 404 and self._arguments.ignore_not_found):
            self._refused.append(error)

    def _write(self, columns: Columns, table: Table, layout: Layout, header: bool) -> None:
        head = [table.header(layout)] if header and not self._arguments.no_headers else []
        for line in columns.lines([*head, *table.cells(layout)]):
            sys.stdout.write(visible(line) + "\n")

    async def _objects(self, wanted: Sequence[ResourceArgument]) -> int:
        """Print the objects: a single one as is, several as a list."""
        found: list[tuple[ServedResource, Tree]] = []
        for each in wanted:
            resource, place = each.served.resource, each.place(self._namespace)
            try:
                if each.name:
                    found.append((each.served, await self._client.read(path_of(resource, place, each.name))))
                else:
                    items = await self._client.list(
                        resource, place, labels=self._arguments.selector or "",
                        fields=self._arguments.field_selector or "",
                    )  # fmt: skip
                    found += ((each.served, tree) for tree in items.items)
            except StatusError as error:
                self._refuse(error)
        if self._print is None:
            sys.stdout.write("".join(f"{name_of(served, tree)}\n" for served, tree in found))
        elif len(wanted) == 1 and wanted[0].name:
            sys.stdout.write("".join(self._print(shown(tree)) for _, tree in found))
        elif found or not self._refused:
            sys.stdout.write(self._print(as_list([shown(tree) for _, tree in found])))
            return 1
        return len(found)

    async def _watch(self, wanted: ResourceArgument) -> int:
        """Print the present state, then every change, until interrupted."""
        resource, place = wanted.served.resource, wanted.place(self._namespace)
        query = [*self._query, *([("includeObject", "Object")] if self._print else [])]
        if wanted.name:
            await self._client.read(path_of(resource, place, wanted.name))  # a missing object is an error
            query.append(("fieldSelector", f"metadata.name={wanted.name}"))
        layout, columns, table = self._layout(wanted.served, label=False), Columns(), Table()
        first = True
        async for tree in _states(self._client, wanted.served, place, query):
            table.rows = []
            table.add(tree)
            if not table.rows:
                continue
            if self._print is None and not self._names_only:
                self._write(columns, table, layout, header=first)
            else:
                for row in table.rows:
                    full = row.get("object") or {}
                    if self._print is None:
                        sys.stdout.write(name_of(wanted.served, full) + "\n")
                    else:
                        separator = "---\n" if self._arguments.output == "yaml" and not first else ""
                        sys.stdout.write(separator + self._print(shown(full)))
            first = False
            sys.stdout.flush()
        return 0


async def _states(client: HttpClient, served: ServedResource, place: str, query: Query) -> AsyncIterator[Tree]:
    """Yield tables of the present state, then of each change."""
    resource = served.resource
    while True:
        present = await listed(client, resource, place, query)
        tree = {"kind": "Table", "columnDefinitions": present.columns, "rows": present.rows}
        yield tree
        revision = present.revision
        try:
            while True:
                async for event, tree in followed(client, resource, place, query, revision, ACCEPT):
                    revision = _revision(tree) or revision
                    if event != "BOOKMARK":
                        yield tree
        except StatusError as error:
            if error.code != 410 and error.reason != "Expired":
                raise


def _revision(tree: Tree) -> str:
    """Return the resource version at which a watch continues after a table."""
    for row in reversed(tree.get("rows") or ()):
        metadata = (row.get("object") or {}).get("metadata") or {}
        if metadata.get("resourceVersion"):
            return str(metadata["resourceVersion"])
    return str((tree.get("metadata") or {}).get("resourceVersion") or "")
