"""``allot apply``: creates or updates objects from manifests by server-side apply.

Every object is applied, even if earlier ones failed. If a CustomResourceDefinition of the same run defines a kind, the
command waits for it, so that both can be in one file.
"""

from __future__ import annotations

import asyncio
import sys
from argparse import Namespace
from typing import TYPE_CHECKING, Any, Final

from allotment.cli.live.connection import announce, kubectl_options, on_cluster, refusal
from allotment.cli.live.manifests import documents, place_of, served_by
from allotment.cli.output.errors import Failure
from allotment.cluster import error_location
from allotment.cluster.errors import StatusError
from allotment.cluster.inspection.discovery import Discovery, ServedResource, discover
from allotment.cluster.remote.kubeconfig import ClusterTarget
from allotment.errors import InputError, InvalidManifests
from allotment.model.loading import Document
from allotment.shell_words import shell_line

if TYPE_CHECKING:
    from allotment.cluster.remote.http_client import HttpClient

#: A definition is normally established immediately; an aggregated server may take longer.
_KIND_SECONDS = 5.0
_LOOK_SECONDS = 0.1


def run(arguments: Namespace) -> int:
    """Apply the manifests; return 1 if an object was rejected."""
    wanted = documents(arguments)

    async def work(client: HttpClient, way: ClusterTarget) -> int:
        announce(arguments, way)
        return await _Apply(arguments, client, way, await discover(client)).run(wanted)

    return on_cluster(arguments, work)


class _Apply:
    def __init__(self, arguments: Namespace, client: HttpClient, way: ClusterTarget, discovery: Discovery) -> None:
        self._arguments = arguments
        self._client = client
        self._way = way
        self._discovery = discovery
        self._dry = arguments.dry_run == "server"
        self._defined: set[str] = set()

    async def run(self, wanted: list[Document]) -> int:
        failed = False
        rejected: list[Document] = []
        commands: list[str] = []
        to_replace: set[str] = set()
        for document in wanted:
            try:
                served = await self._served(document)
                done = await self._one(document, served)
                sys.stdout.write(f"{done}{' (server dry run)' if self._dry else ''}\n")
            except StatusError as error:
                failed = True
                place = error_location.locate_error(document, error)
                advice = (f"  {line}" for line in place.advice)
                if place.sentence:
                    sys.stderr.write(f"{place.position}: {place.sentence}\n")
                sys.stderr.write("\n".join((refusal(error, f"{place.position}: "), *advice)) + "\n")
                if _conflicts(error):
                    sys.stderr.write("  --force-conflicts takes over these fields\n")
                if command := self._command_before(document, error):
                    commands.append(command)
                elif not _needs_replacement(error):
                    rejected.append(document)
                elif document.file not in to_replace:
                    to_replace.add(document.file)
                    sys.stderr.write(f"  {self._replacement(document)}\n")
            except Failure as error:
                failed = True
                rejected.append(document)
                hint = f"\n  {error.hint}" if error.hint else ""
                sys.stderr.write(f"{error}{hint}\n")
        if rejected or commands:
            self._print_next(rejected, commands)
        return 1 if failed else 0

    def _print_next(self, rejected: list[Document], commands: list[str]) -> None:
        """Print the command that fixes the rejected objects, or else the first of the other commands that help."""
        # The rules of `allot check` are loaded only if they are needed.
        from allotment.explanation.text import NEXT

        command = self._command_for(rejected) if rejected else ""
        if command or commands:
            sys.stderr.write(f"{NEXT}{command or commands[0]}\n")

    def _command_for(self, rejected: list[Document]) -> str:
        from allotment.cli.next_step import command_for_rejected_objects

        try:
            return command_for_rejected_objects(self._arguments, rejected)
        except (InvalidManifests, InputError):  # an invalid configuration of allot check
            return ""

    def _command_before(self, document: Document, error: StatusError) -> str:
        """The command with which the same object is accepted; empty if there is none."""
        if namespace := _missing_namespace(error):
            connection = kubectl_options(Namespace(**{**vars(self._arguments), "namespace": None}), self._way)
            return shell_line(("kubectl", *connection, "create", "namespace", namespace))
        if _conflicts(error) and document.file != "<stdin>":
            return shell_line(("allot", *self._arguments.words, "--force-conflicts"))
        return ""

    def _replacement(self, document: Document) -> str:
        """The command that deletes the objects of a file and creates them again, with the claims of their pods."""
        if document.file == "<stdin>":
            return "the existing object cannot be changed: delete it, then apply this one"
        options = kubectl_options(self._arguments, self._way)
        command = shell_line(("kubectl", *options, "replace", "--force", "-f", document.file))
        return f"to delete the objects of this file and create them again: {command}"

    async def _served(self, document: Document) -> ServedResource:
        """Return the kind of an object; its definition may have been applied in this run."""
        deadline = asyncio.get_running_loop().time() + _KIND_SECONDS
        while document.kind in self._defined and not self._discovery.by_type(document.api_version, document.kind):
            if asyncio.get_running_loop().time() > deadline:
                break
            await asyncio.sleep(_LOOK_SECONDS)
            self._discovery = await discover(self._client)
        return served_by(self._discovery, document)

    async def _one(self, document: Document, served: ServedResource) -> str:
        tree, resource = document.tree, served.resource
        place = place_of(document, served, self._arguments, self._way)
        metadata = tree.get("metadata")
        if not document.name and isinstance(metadata, dict) and metadata.get("generateName"):
            made = await self._client.create(resource, tree, place, dry_run=self._dry)
            return f"{served.label}/{made['metadata']['name']} created"
        if not document.name:
            raise Failure(f"error: {document.position(('metadata',))}: resource name may not be empty")
        try:
            before = await self._client.get(resource, document.name, place)
        except StatusError as error:
            if error.code != 404:
                raise
            before = None
        after = await self._client.patch(
            resource, document.name, tree, place, kind="apply", force=self._arguments.force_conflicts,
            dry_run=self._dry,
        )  # fmt: skip
        if resource.plural == "customresourcedefinitions":
            self._defined.add(str(((tree.get("spec") or {}).get("names") or {}).get("kind")))
        if before is None:
            done = "created"
        else:
            done = "unchanged" if _same(before, after, self._dry) else "configured"
        return f"{served.label}/{document.name} {done}"


def _same(before: dict[str, Any], after: dict[str, Any], dry: bool) -> bool:
    """Return whether the object is unchanged; for a dry run the contents are compared."""
    if not dry:
        return bool(before["metadata"].get("resourceVersion") == after["metadata"].get("resourceVersion"))
    return _content(before) == _content(after)


def _content(tree: dict[str, Any]) -> dict[str, Any]:
    skipped = ("managedFields", "resourceVersion", "generation")
    return {**tree, "metadata": {key: value for key, value in tree["metadata"].items() if key not in skipped}}


#: Texts of the API server about fields that no update may change.
_UNCHANGEABLE: Final = ("field is immutable", "pod updates may not change fields", "updates to statefulset spec")


def _needs_replacement(error: StatusError) -> bool:
    """Whether the object exists and only another object can have the new fields."""
    return error.code == 422 and any(text in str(error) for text in _UNCHANGEABLE)


def _missing_namespace(error: StatusError) -> str:
    """The namespace of the object, if it does not exist."""
    details = error.status.get("details") or {}
    return str(details.get("name", "")) if error.code == 404 and details.get("kind") == "namespaces" else ""


def _conflicts(error: StatusError) -> bool:
    """Whether other managers own fields with other values, such as ``kubectl replace`` of a corrected object."""
    causes = (error.status.get("details") or {}).get("causes") or ()
    return error.code == 409 and any(cause.get("reason") == "FieldManagerConflict" for cause in causes)
