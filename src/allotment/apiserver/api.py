"""The API as an application: from a request to an answer, whatever the request is.

Who asks, whether he may, what the path names, what the body holds, which verb it is, and in which form the answer
goes out. Nothing is answered before it is durable, and nothing that a client sends raises: every refusal is a Status.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Final

from allotment.apiserver import api_errors, bodies, deletion, health, paths, scale, streams, virtual_resources
from allotment.apiserver import patch as patching
from allotment.apiserver.access.reviews import AccessControl
from allotment.apiserver.api_description.endpoints import Documents
from allotment.apiserver.custom_resources.registration import follow_definitions
from allotment.apiserver.http_messages import Answer, Request, Response, Streaming, Upgrade
from allotment.apiserver.kinds.kind import ServedKind, User
from allotment.apiserver.paths import Target
from allotment.apiserver.reads import paging, representation
from allotment.apiserver.reads import watch as watching
from allotment.apiserver.reads.representation import Form, negotiate
from allotment.apiserver.reads.selectors import exact_name, selection
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
from allotment.apiserver.served_kinds import Catalog, is_custom
from allotment.apiserver.storage.store import Entry, Store
from allotment.apiserver.streams import Kubelets
from allotment.apiserver.verbs import Ask, Ids, Verbs
from allotment.cluster.errors import StatusError
from allotment.model.features import Features
from allotment.model.quoting import quote
from allotment.model.trees import Tree

Headers = tuple[tuple[str, str], ...]

_log = logging.getLogger("allotment.apiserver")

_PRIVATE: Final = ("cache-control", "no-cache, private")
_JSON: Final[Headers] = (_PRIVATE, ("content-type", representation.JSON))
_TYPED: Final[Mapping[str, Headers]] = {
    representation.JSON: _JSON,
    representation.YAML: (_PRIVATE, ("content-type", representation.YAML)),
    representation.PROTOBUF: (_PRIVATE, ("content-type", representation.PROTOBUF)),
}
_FRAMED: Final[Headers] = (_PRIVATE, ("content-type", f"{representation.PROTOBUF};stream=watch"))
_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "GET": "get"}
#: Verbs that objects in namespaces know for one namespace only, not for all.
_IN_NAMESPACES: Final = frozenset({"create", "deletecollection"})
_STREAMS: Final = frozenset({"attach", "exec", "log", "portforward"})
#: Characters of all warnings of an answer, and of each if they are more.
_WARNED: Final = 4096
_WARNED_EACH: Final = 256
#: Subresources that are the object itself, seen from a side.
_SIDES: Final = frozenset({"status", "finalize", "ephemeralcontainers", "resize", "approval"})


def _none(namespace: str) -> Iterable[Tree]:
    return ()


class Api:
    """See the module. ``kinds`` are the built-in ones; ``server`` is the address that clients are told.

    ``companions``: the objects that come with each new namespace, by its name.
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
        companions: Callable[[str], Iterable[Tree]] = _none,
    ) -> None:
        self.store = store
        self.catalog = Catalog(kinds)
        self.verbs = Verbs(store, self.catalog, clock=clock, ids=ids, features=features, companions=companions)
        self.access = access
        self._kubelets = kubelets
        self._lines = watching.Lines()
        self._unfollow = follow_definitions(store, self.catalog, features.kube)
        self._documents = Documents(tuple(self.catalog), release=features.kube, server=server)
        self._documented = self.catalog.generation
        self._features, self._server = features, server

    def close(self) -> None:
        """Stop following the store."""
        self._unfollow()

    async def __call__(self, request: Request) -> Answer:
        """Answer one request."""
        try:
            try:
                answer = await self._answer(request)
            except StatusError as error:
                answer = _refusal(error.status, request)
            if isinstance(answer, Response) and answer.code >= 400:
                # A refusal tells of writes, too: a name that is taken, an object that is gone.
                await self.store.durable()
            return answer
        except OSError as error:
            return _refusal(api_errors.unavailable(f"the store has failed: {error}").status, request)
        except Exception as error:  # noqa: BLE001 - a defect of ours must not cost a client its connection
            _log.exception("%s %s", request.method, request.path)
            return _refusal(api_errors.internal(f"{type(error).__name__}: {error}").status, request)

    async def _answer(self, request: Request) -> Answer:
        user = self.access.authenticator(request)
        if user is None:
            raise api_errors.unauthorized()
        target = paths.parse(request.path)
        if target is None:
            return await self._elsewhere(request, user)
        kind = self.catalog.find(target.group, target.version, target.plural)
        verb = _verb(request, target)
        self._allow(user, verb, target, _sought(request, target, verb))
        if kind is None:
            return self._nothing(target)
        if kind.namespaced != bool(target.namespace) and (target.namespace or target.name or verb in _IN_NAMESPACES):
            raise api_errors.unknown_path() if target.namespace or target.name else api_errors.method_not_allowed()
        if target.rest or (target.subresource and target.subresource not in kind.subresources):
            raise api_errors.unknown_path()
        note = kind.deprecated.get(target.version)
        if note is None:
            return await self._served(request, user, kind, target, verb)
        try:
            answer = await self._served(request, user, kind, target, verb)
        except StatusError as error:
            answer = _refusal(error.status, request)
        return _warned(answer, note)

    async def _served(self, request: Request, user: User, kind: ServedKind, target: Target, verb: str) -> Answer:
        """What a kind that is served answers."""
        if target.subresource and target.subresource not in _SIDES:
            return await self._called(request, user, kind, target)
        answer = _ANSWERS.get((request.method, bool(target.name)))
        if answer is None or (not target.subresource and verb not in kind.verbs):
            raise api_errors.method_not_allowed()
        return await answer(self, request, user, kind, target)

    def _allow(self, user: User, verb: str, target: Target, sought: str = "") -> None:
        namespace = target.name if target.plural == "namespaces" and not target.group else target.namespace
        name = target.name or sought
        why = self.access.authorizer(user, verb, target.group, target.plural, target.subresource, namespace, name)
        if why is not None:
            raise api_errors.may_not(target.group, target.plural, name, why)

    def allow(
        self, user: User, verb: str, kind: ServedKind, namespace: str, name: str, subresource: str = "", sought: str = ""
    ) -> None:
        """Refuse what the user may not do. ``sought``: the name that a list or a watch is limited to."""
        self._allow(user, verb, Target(kind.group, "", kind.plural, namespace, name, subresource), sought)

    def allow_new(self, user: User, kind: ServedKind, namespace: str, name: str) -> None:
        """Refuse who may write to objects but not create them, where there is none: a write would create it."""
        if self.store.get(kind.store_bucket, namespace, name) is None:
            self.allow(user, "create", kind, namespace, name)

    def _nothing(self, target: Target) -> Response:
        """There is no such resource, or not even such a group."""
        if target.group and not self.catalog.serves(target.group, target.version):
            return page_not_found()
        raise api_errors.unknown_path()

    async def _elsewhere(self, request: Request, user: User) -> Answer:
        """Paths that name no resource: discovery, schemas, health."""
        why = self.access.authorizer(user, request.method.lower(), path=request.path)
        if why is not None:
            raise api_errors.may_not("", "", "", why)
        if request.method not in ("GET", "HEAD"):
            raise api_errors.method_not_allowed()
        if self._documented != self.catalog.generation:
            self._documents = Documents(
                tuple(self.catalog), release=self._features.kube, server=self._server, previous=self._documents
            )
            self._documented = self.catalog.generation
        answer = self._documents.answer(request)
        if answer is not None:
            return answer
        found = health.answer(request.path, request.query, self.catalog, self.store, self._features)
        return found or page_not_found()

    # --- reading -----------------------------------------------------------------------------------------------------

    async def _get(self, request: Request, user: User, kind: ServedKind, target: Target) -> Answer:
        form = self._form(request, kind)
        if request.query:
            asked = first(parse_query(request.query), "resourceVersion")
            if asked and revision(asked) > self.store.revision:
                await paging.reached(self.store, revision(asked))
        entry = self.store.get(kind.store_bucket, target.namespace, target.name)
        if entry is None:
            raise api_errors.not_found(kind.group, kind.plural, target.name)
        return await self._shown(kind, target.version, entry, form)

    async def _list(self, request: Request, user: User, kind: ServedKind, target: Target) -> Answer:
        query = parse_query(request.query)
        options = list_options(query, watch=target.watch)
        if options.watch:
            return self._watch(request, kind, target, options)
        if target.watch and target.name:
            raise api_errors.unknown_path()
        form = self._form(request, kind)
        wanted = selection(kind, target.version, options.labels, options.fields)
        if options.revision is not None and options.revision > self.store.revision:
            await paging.reached(self.store, options.revision)
        page = paging.page(self.store, kind.store_bucket, target.namespace or None, options, wanted)
        body = representation.list_body(kind, target.version, page, form, self.verbs.now(), self.store)
        await self.store.durable(min(page.revision, self.store.revision))
        return Response(200, _TYPED[form.media], body)

    async def _read(self, request: Request, user: User, kind: ServedKind, target: Target) -> Answer:
        """GET of one object; by the old path of a watch, a watch of it."""
        if not target.watch:
            return await self._get(request, user, kind, target)
        options = list_options(parse_query(request.query), watch=True)
        fields = f"metadata.name={target.name}"
        return self._watch(request, kind, target, options._replace(fields=fields))

    def _watch(self, request: Request, kind: ServedKind, target: Target, options: ListOptions) -> Answer:
        form = self._form(request, kind, stream=True)
        headers = _FRAMED if form.media == representation.PROTOBUF else _JSON
        wanted = selection(kind, target.version, options.labels, options.fields)
        try:
            watch = watching.Watch(self.store, kind.store_bucket, target.namespace or None, options, wanted)
        except StatusError as error:
            return Streaming(200, headers, watching.refused(error.status, form))
        pieces = watching.pieces(watch, kind, target.version, form, self._lines, self.verbs.now, self.store)
        return Streaming(200, headers, pieces)

    def _form(self, request: Request, kind: ServedKind, *, stream: bool = False) -> Form:
        form = negotiate(request.headers.get("accept", ""), stream=stream, custom=is_custom(kind))
        if form.shown != "table" or not request.query:
            return form
        include = first(parse_query(request.query), "includeObject") or form.include
        if include not in ("Metadata", "Object", "None"):
            error = f"includeObject: Invalid value: {quote(include)}: must be 'Metadata', 'Object', 'None', or empty"
            raise api_errors.bad_request(f"Unable to convert to Table as requested: {error}")
        return form._replace(include=include)

    async def _shown(
        self, kind: ServedKind, version: str, entry: Entry, form: Form, code: int = 200, warnings: Iterable[str] = ()
    ) -> Response:
        body = representation.object_body(
            kind, version, entry, form, self.verbs.now() if form.shown == "table" else "", self.store
        )
        await self.store.durable(entry.revision)
        return Response(code, _headers(form, warnings), body)

    # --- writing -----------------------------------------------------------------------------------------------------

    def _ask(
        self, request: Request, user: User, kind: ServedKind, target: Target, query: Query, dry_run: bool, warnings: list[str]
    ) -> Ask:
        manager = first(query, "fieldManager") or _agent(request.headers.get("user-agent", ""))
        return Ask(
            kind, target.version, target.namespace, target.name, user, manager, target.subresource, dry_run,
            warnings.append,
        )  # fmt: skip

    async def _create(self, request: Request, user: User, kind: ServedKind, target: Target) -> Answer:
        if kind.verbs == ("create",):
            return await self._called(request, user, kind, target)
        form = self._form(request, kind)
        query = parse_query(request.query)
        options = write_options(query, "CreateOptions")
        warnings: list[str] = []
        ask = self._ask(request, user, kind, target, query, options.dry_run, warnings)
        try:
            entry = self.verbs.create(ask, _object(request, ask, options))
        except StatusError as error:
            return _refusal(error.status, request, warnings)
        return await self._shown(kind, target.version, entry, form, 201, warnings)

    async def _update(self, request: Request, user: User, kind: ServedKind, target: Target) -> Answer:
        form = self._form(request, kind)
        query = parse_query(request.query)
        options = write_options(query, "UpdateOptions")
        warnings: list[str] = []
        ask = self._ask(request, user, kind, target, query, options.dry_run, warnings)
        try:
            tree = _object(request, ask, options)
            there = self.store.get(kind.store_bucket, target.namespace, target.name) is not None
            if kind.create_on_update:
                self.allow_new(user, kind, target.namespace, target.name)
            entry = self.verbs.update(ask, tree)
        except StatusError as error:
            return _refusal(error.status, request, warnings)
        return await self._shown(kind, target.version, entry, form, 200 if there else 201, warnings)

    async def _patch(self, request: Request, user: User, kind: ServedKind, target: Target) -> Answer:
        form = self._form(request, kind)
        query = parse_query(request.query)
        media = bodies.media_type(request.headers.get("content-type", ""))
        patch = patching.form_of(media, kind)
        options = write_options(query, "PatchOptions", patch=patch)
        warnings: list[str] = []
        ask = self._ask(request, user, kind, target, query, options.dry_run, warnings)
        try:
            change = patching.read(request.body, patch)
            if patch == "apply":
                self.allow_new(user, kind, target.namespace, target.name)
            entry, new = patching.patch(self.verbs, ask, patch, change, options)
        except StatusError as error:
            return _refusal(error.status, request, warnings)
        return await self._shown(kind, target.version, entry, form, 201 if new else 200, warnings)

    async def _delete(self, request: Request, user: User, kind: ServedKind, target: Target) -> Answer:
        if target.subresource:
            raise api_errors.method_not_allowed()
        form = self._form(request, kind)
        query = parse_query(request.query)
        options = delete_options(query, self._options_in(request))
        ask = self._ask(request, user, kind, target, query, options.dry_run, [])
        entry, gone = deletion.delete(self.verbs, ask, options)
        status = deletion.outcome(kind, entry, gone)
        if status is None:
            return await self._shown(kind, target.version, entry, form)
        await self.store.durable()
        return Response(200, _headers(form), representation.written(status, form))

    async def _delete_collection(self, request: Request, user: User, kind: ServedKind, target: Target) -> Answer:
        form = self._form(request, kind)
        query = parse_query(request.query)
        options = delete_options(query, self._options_in(request))
        chosen = list_options(query)
        wanted = selection(kind, target.version, chosen.labels, chosen.fields)
        page = paging.page(self.store, kind.store_bucket, target.namespace or None, chosen, wanted)
        ask = self._ask(request, user, kind, target, query, options.dry_run, [])
        deletion.delete_all(self.verbs, ask, page.entries, options)
        body = representation.list_body(kind, target.version, page, form, self.verbs.now(), self.store)
        await self.store.durable()
        return Response(200, _headers(form), body)

    def _options_in(self, request: Request) -> Tree:
        if not request.body:
            return {}
        media = bodies.media_type(request.headers.get("content-type", ""))
        return bodies.read_plain(request.body, media, "DeleteOptions", ())

    # --- calls -------------------------------------------------------------------------------------------------------

    async def _called(self, request: Request, user: User, kind: ServedKind, target: Target) -> Answer:
        """Subresources that are no side of the object, and kinds that are not stored."""
        if target.subresource == "scale":
            return await self._scale(request, user, kind, target)
        if target.subresource in _STREAMS:
            return await self._streamed(request, user, kind, target)
        if request.method != "POST":
            raise api_errors.method_not_allowed()
        form = self._form(request, kind)
        query = parse_query(request.query)
        options = write_options(query, "CreateOptions")
        ask = self._ask(request, user, kind, target, query, options.dry_run, [])
        media = bodies.media_type(request.headers.get("content-type", ""))
        what, versions = virtual_resources.BODIES.get(target.subresource, (kind.kind, (ask.api_version,)))
        tree = bodies.in_namespace(bodies.read_plain(request.body, media, what, versions), target.namespace)
        answered = self.call(ask, tree)
        await self.store.durable()
        return Response(201, _headers(form), representation.written(answered, form))

    async def _streamed(self, request: Request, user: User, kind: ServedKind, target: Target) -> Answer:
        """What a pod's node answers: logs, and connections into its containers."""
        if request.method not in ("GET", "POST"):
            raise api_errors.method_not_allowed()
        if target.subresource != "log":  # a WebSocket begins with GET, and yet to run a command is not to read
            self._allow(user, "create", target)
        entry = self.store.get(kind.store_bucket, target.namespace, target.name)
        if entry is None:
            raise api_errors.not_found(kind.group, kind.plural, target.name)
        return await streams.answer(target.subresource, request, entry.tree, self._kubelets)

    def call(self, ask: Ask, tree: Tree) -> Tree:
        """What is written like an object and is none: carried out and answered."""
        kind = ask.kind
        if ask.subresource == "binding":
            return virtual_resources.bind(self.verbs, ask, tree)
        if kind.bucket == "bindings":
            pods = self.catalog.find("", "v1", "pods")
            assert pods is not None, "there are always pods"
            name = (tree.get("metadata") or {}).get("name") or ""
            return virtual_resources.bind(self.verbs, ask._replace(kind=pods, name=name), tree)
        if ask.subresource == "eviction":
            return virtual_resources.evict(self.verbs, ask, tree)
        if ask.subresource == "token":
            return virtual_resources.issue_token(self.verbs, ask, tree, self.access)
        if kind.verbs == ("create",) and not ask.subresource:
            tree = {"kind": kind.kind, "apiVersion": ask.api_version, **tree}
            return virtual_resources.review(self.verbs, ask, tree, self.access)
        raise api_errors.unknown_path()

    async def _scale(self, request: Request, user: User, kind: ServedKind, target: Target) -> Answer:
        form = self._form(request, kind)
        query = parse_query(request.query)
        media = bodies.media_type(request.headers.get("content-type", ""))
        if request.method == "GET":
            ask = self._ask(request, user, kind, target, query, False, [])
            entry = self.verbs.entry(ask)
        elif request.method in ("PUT", "PATCH"):
            patch = patching.form_of(media, kind) if request.method == "PATCH" else ""
            options = write_options(query, "PatchOptions" if patch else "UpdateOptions", patch=patch)
            ask = self._ask(request, user, kind, target, query, options.dry_run, [])
            if patch:
                wanted = patching.patched_scale(
                    scale.view(self.verbs.entry(ask), kind), patch, patching.read(request.body, patch)
                )
            else:
                wanted = bodies.read_plain(request.body, media, "Scale", (scale.API_VERSION,))
            entry = scale.write(self.verbs, ask, wanted)
        else:
            raise api_errors.method_not_allowed()
        body = representation.written(scale.view(entry, kind), form)
        await self.store.durable(entry.revision)
        return Response(200, _headers(form), body)


_ANSWERS: Final = {
    ("GET", True): Api._read,
    ("GET", False): Api._list,
    ("POST", False): Api._create,
    ("PUT", True): Api._update,
    ("PATCH", True): Api._patch,
    ("DELETE", True): Api._delete,
    ("DELETE", False): Api._delete_collection,
}


def _object(request: Request, ask: Ask, options: WriteOptions) -> Tree:
    """The object in a body, checked."""
    media = bodies.media_type(request.headers.get("content-type", ""))
    tree = bodies.read_object(request.body, media, ask.kind, ask.version, options.validation, ask.warn)
    return bodies.in_namespace(tree, ask.namespace)


def _verb(request: Request, target: Target) -> str:
    """The verb as access rules know it."""
    verb = _VERBS.get(request.method, request.method.lower())
    if target.name:
        return "watch" if target.watch and verb == "get" else verb
    if verb == "get":
        return "watch" if target.watch or boolean(parse_query(request.query), "watch") else "list"
    return "deletecollection" if verb == "delete" else verb


def _sought(request: Request, target: Target, verb: str) -> str:
    """The name that a list or a watch is limited to: who may see that one object need not see all."""
    if verb not in ("list", "watch") or target.watch or not request.query:
        return ""
    return exact_name(first(parse_query(request.query), "fieldSelector"))


def _agent(header: str) -> str:
    """The field manager that a User-Agent stands for: what is before its first slash."""
    name = "".join(character for character in header.partition("/")[0] if character.isprintable())[:128]
    return name or "unknown"


def _headers(form: Form, warnings: Iterable[str] = ()) -> Headers:
    headers = _TYPED[form.media]
    if not warnings:
        return headers
    return (*headers, *(("warning", f"299 - {quote(text)}") for text in _bearable(warnings)))


def _bearable(warnings: Iterable[str]) -> Iterable[str]:
    """Each warning once; of too many the beginnings, as upstream: clients bear only so much of headers."""
    distinct = tuple(dict.fromkeys(warnings))
    if sum(map(len, distinct)) <= _WARNED:
        return distinct
    return [text[:_WARNED_EACH] for text in distinct][: _WARNED // _WARNED_EACH]


def _refusal(status: Tree, request: Request, warnings: Iterable[str] = ()) -> Response:
    """A Status as the answer."""
    form = representation.refusal_form(request.headers.get("accept", ""))
    headers = _headers(form, warnings)
    seconds = (status.get("details") or {}).get("retryAfterSeconds")
    if seconds:
        headers = (*headers, ("retry-after", str(seconds)))
    body = b"" if request.method == "HEAD" else representation.written(status, form)
    return Response(int(status["code"]), headers, body)


def _warned(answer: Answer, note: str) -> Answer:
    """An answer with one more warning, the first."""
    if isinstance(answer, Upgrade):
        return answer
    headers = answer.headers
    return answer._replace(headers=(*headers[:2], ("warning", f"299 - {quote(note)}"), *headers[2:]))


def page_not_found() -> Response:
    """What Go's own server says of paths that nobody knows."""
    headers = (_PRIVATE, ("content-type", "text/plain; charset=utf-8"), ("x-content-type-options", "nosniff"))
    return Response(404, headers, b"404 page not found\n")
