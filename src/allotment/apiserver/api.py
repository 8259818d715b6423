"""The HTTP API: authenticates, authorizes and routes each request, and writes the response.

Responses are sent only after the revisions they show are durable. Errors caused by a client are returned as a
``Status``, never raised.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Iterable
from datetime import datetime
from functools import partial
from typing import Final

from allotment.apiserver import (
    api_errors,
    bodies,
    deletion,
    health,
    paths,
    scale,
    streams,
    virtual_resources,
    websockets,
)
from allotment.apiserver import patch as patching
from allotment.apiserver.access.reviews import AccessControl
from allotment.apiserver.aggregation.documents import group_discovery, groups
from allotment.apiserver.aggregation.proxy import forward
from allotment.apiserver.aggregation.registry import AggregatedApis
from allotment.apiserver.aggregation.subresources import PROXIED, proxy_to
from allotment.apiserver.api_description.endpoints import Documents
from allotment.apiserver.custom_resources.registration import follow_definitions
from allotment.apiserver.definition_cleanup import DefinitionCleanup
from allotment.apiserver.http_messages import AnyResponse, Request, Response, Streaming
from allotment.apiserver.kinds.kind import ServedKind, User
from allotment.apiserver.operation import Operation
from allotment.apiserver.outbound.client import OutboundClient
from allotment.apiserver.outbound.conversions import convert_listed, convert_read
from allotment.apiserver.paths import ResourcePath
from allotment.apiserver.reads import paging, representation
from allotment.apiserver.reads import watch as watching
from allotment.apiserver.reads.computed import readable
from allotment.apiserver.reads.representation import Form, negotiate
from allotment.apiserver.reads.selectors import exact_name, parse_selection
from allotment.apiserver.request_options import (
    ListOptions,
    Query,
    WriteOptions,
    boolean,
    delete_options,
    first,
    list_options,
    parse_query,
    revision,
    write_options,
)
from allotment.apiserver.responses import page_not_found, response_headers, status_response, watch_headers, with_warning
from allotment.apiserver.served_kinds import Catalog, is_custom
from allotment.apiserver.storage.store import Entry, Store
from allotment.apiserver.streams import Kubelets
from allotment.apiserver.verbs import Ids, Verbs
from allotment.cluster.errors import StatusError
from allotment.model.features import Features
from allotment.model.quoting import quote
from allotment.model.trees import Tree

_log = logging.getLogger("allotment.apiserver")

_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "GET": "get"}
#: Verbs that namespaced resources support in one namespace only, not across all namespaces.
_SINGLE_NAMESPACE: Final = frozenset({"create", "deletecollection"})
_STREAMS: Final = frozenset({"attach", "exec", "log", "portforward"})
#: The kinds of the options of connections, which admission policies can read.
_CONNECT_OPTIONS: Final = {
    "attach": "PodAttachOptions", "exec": "PodExecOptions", "portforward": "PodPortForwardOptions",
}  # fmt: skip
#: Query parameters of writes that admission policies can read.
_WRITE_OPTIONS: Final = ("fieldManager", "fieldValidation")
#: Subresources that read and write the object itself.
_OBJECT_SUBRESOURCES: Final = frozenset({"status", "finalize", "ephemeralcontainers", "resize", "approval"})


def _no_objects(namespace: str) -> Iterable[Tree]:
    return ()


class Api:
    """The API server application. ``kinds`` are the built-in kinds; ``server`` is the address shown to clients.

    ``namespace_objects`` returns the objects to create in each new namespace, given its name.
    """

    def __init__(
        self,
        store: Store,
        kinds: Iterable[ServedKind],
        *,
        clock: Callable[[], datetime],
        ids: Ids,
        features: Features,
        access: AccessControl,
        kubelets: Kubelets | None = None,
        server: str = "",
        namespace_objects: Callable[[str], Iterable[Tree]] = _no_objects,
    ) -> None:
        self.store = store
        self.catalog = Catalog(kinds)
        #: Calls other servers, such as webhooks.
        self.outbound = OutboundClient(store, kubelets)
        self.verbs = Verbs(
            store, self.catalog, clock=clock, ids=ids, features=features, authorizer=access.authorizer,
            namespace_objects=namespace_objects, outbound=self.outbound,
        )  # fmt: skip
        self.access = access
        access.authenticator.on_secret_token = partial(virtual_resources.mark_token_used, self.verbs)
        self._kubelets = kubelets
        self._event_encoder = watching.EventEncoder()
        self._stop_following = follow_definitions(store, self.catalog, features.kube)
        #: Deletes the objects of definitions that are deleted; begins with the lab.
        self.definition_cleanup = DefinitionCleanup(self.verbs)
        #: The APIs of other servers; they are checked from the start of the lab.
        self.aggregated = AggregatedApis(self.verbs)
        self._documents = Documents(tuple(self.catalog), release=features.kube, server=server)
        self._documents_generation = self.catalog.generation, -1
        self._features, self._server = features, server

    def close(self) -> None:
        """Unsubscribe from the store."""
        self._stop_following()
        self.definition_cleanup.close()
        self.verbs.close()

    async def __call__(self, request: Request) -> AnyResponse:
        """Return the response to a request. Never raises."""
        try:
            try:
                response = await self._respond(request)
            except StatusError as error:
                response = status_response(error.status, request)
            if isinstance(response, Response) and response.code >= 400:
                # A rejection also reveals writes: a name that is in use, an object that was deleted.
                await self.store.durable()
            return response
        except OSError as error:
            return status_response(api_errors.unavailable(f"the store has failed: {error}").status, request)
        except Exception as error:  # noqa: BLE001 - a bug in a handler must not close the client's connection
            _log.exception("%s %s", request.method, request.path)
            return status_response(api_errors.internal(f"{type(error).__name__}: {error}").status, request)

    async def _respond(self, request: Request) -> AnyResponse:
        user = self.access.authenticator(request)
        if user is None:
            raise api_errors.unauthorized()
        target = paths.parse(request.path)
        if target is None:
            return await self._non_resource(request, user)
        kind = self.catalog.find(target.group, target.version, target.plural)
        verb = _verb(request, target)
        self._allow(user, verb, target, _field_selector(request, target, verb))
        if self.aggregated and (served := self.aggregated.find(target.group, target.version)) is not None:
            return await forward(self.outbound, served, request, user)
        if kind is None:
            return self._no_such_resource(target)
        if kind.namespaced != bool(target.namespace) and (target.namespace or target.name or verb in _SINGLE_NAMESPACE):
            raise api_errors.unknown_path() if target.namespace or target.name else api_errors.method_not_allowed()
        if target.rest or (target.subresource and target.subresource not in kind.subresources):
            if target.subresource == "proxy" and kind.bucket in PROXIED:
                return await proxy_to(self.outbound, self.store, request, kind, target)
            return self._kubelet_metrics(request, kind, target)
        deprecation = kind.deprecated.get(target.version)
        if deprecation is None:
            return await self._dispatch(request, user, kind, target, verb)
        try:
            response = await self._dispatch(request, user, kind, target, verb)
        except StatusError as error:
            response = status_response(error.status, request)
        return with_warning(response, deprecation)

    async def _dispatch(
        self, request: Request, user: User, kind: ServedKind, target: ResourcePath, verb: str
    ) -> AnyResponse:
        """Route a request for a served kind to its handler."""
        if target.subresource and target.subresource not in _OBJECT_SUBRESOURCES:
            return await self._call_virtual(request, user, kind, target)
        handler = _HANDLERS.get((request.method, bool(target.name)))
        if handler is None or (not target.subresource and verb not in kind.verbs):
            raise api_errors.method_not_allowed()
        return await handler(self, request, user, kind, target)

    def _allow(self, user: User, verb: str, target: ResourcePath, fields: str = "") -> None:
        namespace = target.name if target.plural == "namespaces" and not target.group else target.namespace
        name = target.name or (exact_name(fields) if fields and verb != "deletecollection" else "")
        reason = self.access.authorizer(
            user, verb, target.group, target.plural, target.subresource, namespace, name, fields=fields
        )
        if reason is not None:
            raise api_errors.access_denied(target.group, target.plural, name, reason)

    def allow(
        self,
        user: User,
        verb: str,
        kind: ServedKind,
        namespace: str,
        name: str,
        subresource: str = "",
        fields: str = "",
    ) -> None:
        """Raise 403 if the user lacks the permission. ``fields``: the field selector of a list or watch."""
        self._allow(user, verb, ResourcePath(kind.group, "", kind.plural, namespace, name, subresource), fields)

    def allow_new(self, user: User, kind: ServedKind, namespace: str, name: str) -> None:
        """Raise 403 if the object does not exist and the user may not create it: the write would create it."""
        if self.store.get(kind.store_bucket, namespace, name) is None:
            self.allow(user, "create", kind, namespace, name)

    def _no_such_resource(self, target: ResourcePath) -> Response:
        """Reject a resource that is not served; an unknown group gets Go's plain 404 page."""
        if target.group and not self.catalog.knows(target.group, target.version):
            return page_not_found()
        raise api_errors.unknown_path()

    async def _non_resource(self, request: Request, user: User) -> AnyResponse:
        """Serve paths outside the resource API: discovery, OpenAPI documents, health."""
        reason = self.access.authorizer(user, request.method.lower(), path=request.path)
        if reason is not None:
            raise api_errors.access_denied("", "", "", reason)
        if request.method not in ("GET", "HEAD"):
            raise api_errors.method_not_allowed()
        if self.aggregated:
            steps = request.path.strip("/").split("/")
            served = self.aggregated.find(*steps[1:]) if len(steps) == 3 and steps[0] == "apis" else None
            if served is not None:
                return await forward(self.outbound, served, request, user)
        generation = self.catalog.generation, self.aggregated.generation
        if self._documents_generation != generation:
            self._documents = Documents(
                tuple(self.catalog), release=self._features.kube, server=self._server, previous=self._documents,
                groups=groups(self.aggregated), discovered=group_discovery(self.aggregated),
            )  # fmt: skip
            self._documents_generation = generation
        response = self._documents.respond(request)
        if response is None:
            response = health.respond(request.path, request.query, self.catalog, self.store, self._features)
        return response or page_not_found()

    def _kubelet_metrics(self, request: Request, kind: ServedKind, target: ResourcePath) -> Response:
        """Proxy ``/metrics`` of a node's kubelet, the only page that kubelets of a lab have."""
        wanted = (request.method, kind.bucket, target.subresource, target.rest)
        if self._kubelets is None or wanted != ("GET", "nodes", "proxy", "metrics"):
            raise api_errors.unknown_path()
        node = self.store.get(kind.store_bucket, "", target.name)
        if node is None:
            raise api_errors.not_found(kind.group, kind.plural, target.name)
        page = self._kubelets.metrics(node.tree)
        if page is None:
            raise api_errors.unknown_path()
        return Response(200, (("content-type", "text/plain; version=0.0.4"),), page)

    # --- reading -----------------------------------------------------------------------------------------------------

    async def _get(self, request: Request, user: User, kind: ServedKind, target: ResourcePath) -> AnyResponse:
        form = self._form(request, kind)
        if request.query:
            resource_version = first(parse_query(request.query), "resourceVersion")
            if resource_version and revision(resource_version) > self.store.revision:
                await paging.wait_for_revision(self.store, revision(resource_version))
        entry = readable(self.store, kind, self.verbs.now).get(kind.store_bucket, target.namespace, target.name)
        if entry is None:
            raise api_errors.not_found(kind.group, kind.plural, target.name)
        return await self._object_response(kind, target.version, entry, form)

    async def _list(self, request: Request, user: User, kind: ServedKind, target: ResourcePath) -> AnyResponse:
        query = parse_query(request.query)
        options = list_options(query, watch=target.watch)
        if kind.convert is not None and options.fields:
            await self._convert_selected(kind, target)
        if options.watch:
            return self._watch(request, kind, target, options)
        if target.watch and target.name:
            raise api_errors.unknown_path()
        form = self._form(request, kind)
        selection = parse_selection(kind, target.version, options.labels, options.fields)
        if options.revision is not None and options.revision > self.store.revision:
            await paging.wait_for_revision(self.store, options.revision)
        reader = readable(self.store, kind, self.verbs.now)
        page = paging.page(reader, kind.store_bucket, target.namespace or None, options, selection)
        await self._convert_page(kind, target.version, page)
        body = representation.list_body(kind, target.version, page, form, self.verbs.now(), self.store)
        await self.store.durable(min(page.revision, self.store.revision))
        return Response(200, response_headers(form), body)

    async def _convert_selected(self, kind: ServedKind, target: ResourcePath) -> None:
        """Have all objects converted whose fields a selector reads."""
        entries = self.store.list(kind.store_bucket, target.namespace or None)
        await convert_listed(self.outbound, kind, [entry.tree for entry in entries], target.version)

    async def _convert_page(self, kind: ServedKind, version: str, page: paging.Page) -> None:
        """Have a webhook convert what a list contains."""
        if kind.convert is not None:
            await convert_listed(self.outbound, kind, [entry.tree for entry in page.entries], version)

    async def _read(self, request: Request, user: User, kind: ServedKind, target: ResourcePath) -> AnyResponse:
        """GET of one object, or a watch of it under the deprecated ``/watch/`` path."""
        if not target.watch:
            return await self._get(request, user, kind, target)
        options = list_options(parse_query(request.query), watch=True)
        fields = f"metadata.name={target.name}"
        return self._watch(request, kind, target, options._replace(fields=fields))

    def _watch(self, request: Request, kind: ServedKind, target: ResourcePath, options: ListOptions) -> AnyResponse:
        form = self._form(request, kind, stream=True)
        headers = watch_headers(form)
        selection = parse_selection(kind, target.version, options.labels, options.fields)

        convert = partial(convert_read, self.outbound, kind, version=target.version)

        def stream() -> AsyncGenerator[bytes, None]:
            try:
                bucket, namespace = kind.store_bucket, target.namespace or None
                watch = watching.Watch(self.store, bucket, namespace, options, selection, convert=convert)
            except StatusError as error:
                return watching.error_stream(error.status, form)
            lines = self._event_encoder
            return watching.chunks(watch, kind, target.version, form, lines, self.verbs.now, self.store, convert)

        if websockets.is_websocket(request):
            return websockets.watch_response(request, stream, is_text=form.media != representation.PROTOBUF)
        return Streaming(200, headers, stream())

    def _form(self, request: Request, kind: ServedKind, *, stream: bool = False, tables: bool = True) -> Form:
        form = negotiate(request.headers.get("accept", ""), stream=stream, custom=is_custom(kind), tables=tables)
        if form.shown != "table" or not request.query:
            return form
        include = first(parse_query(request.query), "includeObject") or form.include
        if include not in ("Metadata", "Object", "None"):
            error = f"includeObject: Invalid value: {quote(include)}: must be 'Metadata', 'Object', 'None', or empty"
            raise api_errors.bad_request(f"Unable to convert to Table as requested: {error}")
        return form._replace(include=include)

    async def _object_response(
        self, kind: ServedKind, version: str, entry: Entry, form: Form, code: int = 200, warnings: Iterable[str] = ()
    ) -> Response:
        if kind.convert is not None:
            await convert_read(self.outbound, kind, (entry.tree,), version)
        body = representation.object_body(
            kind, version, entry, form, self.verbs.now() if form.shown == "table" else "", self.store
        )
        await self.store.durable(entry.revision)
        return Response(code, response_headers(form, warnings), body)

    # --- writing -----------------------------------------------------------------------------------------------------

    def _operation(
        self,
        request: Request,
        user: User,
        kind: ServedKind,
        target: ResourcePath,
        query: Query,
        dry_run: bool,
        warnings: list[str],
    ) -> Operation:
        manager = first(query, "fieldManager") or _default_manager(request.headers.get("user-agent", ""))
        return Operation(
            kind, target.version, target.namespace, target.name, user, manager, target.subresource, dry_run,
            warnings.append, {name: first(query, name) for name in _WRITE_OPTIONS if first(query, name)},
        )  # fmt: skip

    async def _create(self, request: Request, user: User, kind: ServedKind, target: ResourcePath) -> AnyResponse:
        if kind.verbs == ("create",):
            return await self._call_virtual(request, user, kind, target)
        form = self._form(request, kind)
        query = parse_query(request.query)
        options = write_options(query, "CreateOptions")
        warnings: list[str] = []
        operation = self._operation(request, user, kind, target, query, options.dry_run, warnings)
        try:
            tree = _object(request, operation, options)
            entry = await self.verbs.admitted(lambda: self.verbs.create(operation, tree), warnings)
        except StatusError as error:
            return status_response(error.status, request, warnings)
        return await self._object_response(kind, target.version, entry, form, 201, warnings)

    async def _update(self, request: Request, user: User, kind: ServedKind, target: ResourcePath) -> AnyResponse:
        form = self._form(request, kind)
        query = parse_query(request.query)
        options = write_options(query, "UpdateOptions")
        warnings: list[str] = []
        operation = self._operation(request, user, kind, target, query, options.dry_run, warnings)
        try:
            tree = _object(request, operation, options)
            exists = self.store.get(kind.store_bucket, target.namespace, target.name) is not None
            if kind.create_on_update:
                self.allow_new(user, kind, target.namespace, target.name)
            entry = await self.verbs.admitted(lambda: self.verbs.update(operation, tree), warnings)
        except StatusError as error:
            return status_response(error.status, request, warnings)
        return await self._object_response(kind, target.version, entry, form, 200 if exists else 201, warnings)

    async def _patch(self, request: Request, user: User, kind: ServedKind, target: ResourcePath) -> AnyResponse:
        form = self._form(request, kind)
        query = parse_query(request.query)
        media = bodies.media_type(request.headers.get("content-type", ""))
        patch = patching.patch_type(media, kind)
        options = write_options(query, "PatchOptions", patch=patch)
        warnings: list[str] = []
        operation = self._operation(request, user, kind, target, query, options.dry_run, warnings)
        try:
            change = patching.read(request.body, patch, self.verbs.features)
            if patch == "apply":
                self.allow_new(user, kind, target.namespace, target.name)
            entry, new = await self.verbs.admitted(
                lambda: patching.patch(self.verbs, operation, patch, change, options), warnings
            )
        except StatusError as error:
            return status_response(error.status, request, warnings)
        return await self._object_response(kind, target.version, entry, form, 201 if new else 200, warnings)

    async def _delete(self, request: Request, user: User, kind: ServedKind, target: ResourcePath) -> AnyResponse:
        if target.subresource:
            raise api_errors.method_not_allowed()
        form = self._form(request, kind)
        query = parse_query(request.query)
        options = delete_options(query, self._delete_options_body(request))
        warnings: list[str] = []
        operation = self._operation(request, user, kind, target, query, options.dry_run, warnings)
        entry, is_deleted = await self.verbs.admitted(lambda: deletion.delete(self.verbs, operation, options), warnings)
        status = deletion.response_body(kind, operation.version, entry, is_deleted)
        if status is None:
            return await self._object_response(kind, target.version, entry, form, warnings=warnings)
        await self.store.durable()
        return Response(200, response_headers(form, warnings), representation.encode_tree(status, form))

    async def _delete_collection(
        self, request: Request, user: User, kind: ServedKind, target: ResourcePath
    ) -> AnyResponse:
        form = self._form(request, kind)
        query = parse_query(request.query)
        options = delete_options(query, self._delete_options_body(request))
        chosen = list_options(query)
        selection = parse_selection(kind, target.version, chosen.labels, chosen.fields)
        if kind.convert is not None and chosen.fields:
            await self._convert_selected(kind, target)
        page = paging.page(self.store, kind.store_bucket, target.namespace or None, chosen, selection)
        warnings: list[str] = []
        operation = self._operation(request, user, kind, target, query, options.dry_run, warnings)
        await self._convert_page(kind, target.version, page)
        await deletion.delete_all(self.verbs, operation, page.entries, options, warnings)
        body = representation.list_body(kind, target.version, page, form, self.verbs.now(), self.store)
        await self.store.durable()
        return Response(200, response_headers(form, warnings), body)

    def _delete_options_body(self, request: Request) -> Tree:
        if not request.body:
            return {}
        media = bodies.media_type(request.headers.get("content-type", ""))
        return bodies.read_unstored(request.body, media, "DeleteOptions", ())

    # --- calls -------------------------------------------------------------------------------------------------------

    async def _call_virtual(self, request: Request, user: User, kind: ServedKind, target: ResourcePath) -> AnyResponse:
        """Handle subresources with a type of their own, and kinds that are not stored."""
        if target.subresource == "scale":
            return await self._scale(request, user, kind, target)
        if target.subresource in _STREAMS:
            return await self._stream(request, user, kind, target)
        if request.method != "POST":
            raise api_errors.method_not_allowed()
        form = self._form(request, kind, tables=False)
        query = parse_query(request.query)
        options = write_options(query, "CreateOptions")
        warnings: list[str] = []
        operation = self._operation(request, user, kind, target, query, options.dry_run, warnings)
        media = bodies.media_type(request.headers.get("content-type", ""))
        body_kind, versions = virtual_resources.BODIES.get(target.subresource, (kind.kind, (operation.api_version,)))
        tree = bodies.in_namespace(bodies.read_unstored(request.body, media, body_kind, versions), target.namespace)
        result = await self.verbs.admitted(
            lambda: virtual_resources.call(self.verbs, self.access, operation, tree), warnings
        )
        await self.store.durable()
        return Response(201, response_headers(form, warnings), representation.encode_tree(result, form))

    async def _stream(self, request: Request, user: User, kind: ServedKind, target: ResourcePath) -> AnyResponse:
        """Proxy logs, exec, attach and port-forward to the kubelet of the pod's node."""
        if request.method not in ("GET", "POST"):
            raise api_errors.method_not_allowed()
        if target.subresource != "log":  # WebSocket handshakes are GETs, but running a command requires "create"
            self._allow(user, "create", target)
        entry = self.store.get(kind.store_bucket, target.namespace, target.name)
        if entry is None:
            raise api_errors.not_found(kind.group, kind.plural, target.name)
        if target.subresource in _CONNECT_OPTIONS:
            query = parse_query(request.query)
            operation = self._operation(request, user, kind, target, {}, False, [])
            body_kind = ("v1", _CONNECT_OPTIONS[target.subresource])
            connect = _connect_options(query, *body_kind)
            await self.verbs.admitted(
                lambda: self.verbs.admission.admit(operation, "CONNECT", connect, body_kind=body_kind)
            )
        return await streams.serve(target.subresource, request, entry.tree, self._kubelets)

    async def _scale(self, request: Request, user: User, kind: ServedKind, target: ResourcePath) -> AnyResponse:
        form = self._form(request, kind)
        query = parse_query(request.query)
        warnings: list[str] = []
        media = bodies.media_type(request.headers.get("content-type", ""))
        if request.method == "GET":
            operation = self._operation(request, user, kind, target, query, False, [])
            entry = self.verbs.entry(operation)
        elif request.method in ("PUT", "PATCH"):
            patch = patching.patch_type(media, kind) if request.method == "PATCH" else ""
            options = write_options(query, "PatchOptions" if patch else "UpdateOptions", patch=patch)
            operation = self._operation(request, user, kind, target, query, options.dry_run, warnings)
            entry = await self.verbs.admitted(lambda: self._write_scale(request, operation, media, patch), warnings)
        else:
            raise api_errors.method_not_allowed()
        body = representation.encode_tree(scale.view(entry, kind), form)
        await self.store.durable(entry.revision)
        return Response(200, response_headers(form, warnings), body)

    def _write_scale(self, request: Request, operation: Operation, media: str, patch: str) -> Entry:
        """Set the replicas of an object; ``patch``: the type of the patch in the body, which else is a Scale."""
        if patch:
            change = patching.read(request.body, patch, self.verbs.features).change
            view = scale.view(self.verbs.entry(operation), operation.kind)
            return scale.write(self.verbs, operation, patching.patched_scale(view, patch, change))
        written = bodies.read_unstored(request.body, media, "Scale", (scale.API_VERSION,))
        return scale.write(self.verbs, operation, written)


_HANDLERS: Final = {
    ("GET", True): Api._read,
    ("GET", False): Api._list,
    ("POST", False): Api._create,
    ("PUT", True): Api._update,
    ("PATCH", True): Api._patch,
    ("DELETE", True): Api._delete,
    ("DELETE", False): Api._delete_collection,
}


def _connect_options(query: Query, version: str, kind: str) -> Tree:
    """The options of a connection to a container, from the parameters of its URL."""
    options: Tree = {"kind": kind, "apiVersion": version}
    for name in ("stdin", "stdout", "stderr", "tty"):
        if boolean(query, name):
            options[name] = True
    if container := first(query, "container"):
        options["container"] = container
    if command := query.get("command"):
        options["command"] = list(command)
    if ports := query.get("ports"):
        options["ports"] = [int(port) for port in ports if port.isdigit()]
    return options


def _object(request: Request, operation: Operation, options: WriteOptions) -> Tree:
    """The decoded and validated object in a request body."""
    media = bodies.media_type(request.headers.get("content-type", ""))
    tree = bodies.read_object(
        request.body, media, operation.kind, operation.version, options.validation, operation.warn
    )
    return bodies.in_namespace(tree, operation.namespace)


def _verb(request: Request, target: ResourcePath) -> str:
    """The verb for authorization."""
    verb = _VERBS.get(request.method, request.method.lower())
    if target.name:
        return "watch" if target.watch and verb == "get" else verb
    if verb == "get":
        return "watch" if target.watch or boolean(parse_query(request.query), "watch") else "list"
    return "deletecollection" if verb == "delete" else verb


def _field_selector(request: Request, target: ResourcePath, verb: str) -> str:
    """The field selector of a request for a collection: permission for the objects that it selects is enough."""
    if verb not in ("list", "watch", "deletecollection") or target.watch or not request.query:
        return ""
    return first(parse_query(request.query), "fieldSelector")


def _default_manager(header: str) -> str:
    """The default field manager: the User-Agent up to its first slash."""
    name = "".join(character for character in header.partition("/")[0] if character.isprintable())[:128]
    return name or "unknown"
