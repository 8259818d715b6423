"""The discovery, version and OpenAPI endpoints, with caching headers.

Documents are created on first use and cached as bytes. When the set of kinds changes, documents of unchanged kinds are
reused.
"""

from __future__ import annotations

import hashlib
import platform
import sys
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple
from urllib.parse import parse_qs

import msgspec

from allotment import __version__
from allotment.apiserver import api_errors
from allotment.apiserver.api_description import discovery
from allotment.apiserver.api_description.custom_schemas import definition_name
from allotment.apiserver.api_description.groups import by_group, group_version
from allotment.apiserver.api_description.openapi import openapi_v3, openapi_v3_version
from allotment.apiserver.api_description.openapi_v2 import openapi_v2
from allotment.apiserver.api_description.openapi_v2_protobuf import MEDIA_TYPE, is_accepted, openapi_v2_protobuf
from allotment.apiserver.http_messages import Request, Response
from allotment.apiserver.kinds.kind import ServedKind
from allotment.apiserver.reads.representation import YAML, encode_tree, negotiate
from allotment.model.trees import Tree
from allotment.model.validation.errors import failure_status

_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


def version_info(kube: str) -> Tree:
    """The /version response for a release such as ``1.36``; clients parse ``gitVersion`` as a semantic version.

    >>> version_info("1.36")["gitVersion"].startswith("v1.36.2+allotment")
    True
    """
    major, minor = kube.split(".")[:2]
    machine = _MACHINES.get(platform.machine(), platform.machine())
    return {
        "major": major,
        "minor": minor,
        "emulationMajor": major,
        "emulationMinor": minor,
        "minCompatibilityMajor": major,
        "minCompatibilityMinor": str(int(minor) - 1),
        "gitVersion": f"v{major}.{minor}.2+allotment.{__version__}",
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": f"{sys.implementation.name} {platform.python_version()}",
        "platform": f"{sys.platform}/{machine}",
    }


Headers = tuple[tuple[str, str], ...]

_JSON: Final = "application/json"
_AGGREGATED: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_PRIVATE: Final = ("cache-control", "no-cache, private")
_VARY: Final = ("vary", "Accept")
_JSON_MEDIA_TYPES: Final = frozenset({_JSON, "application/*", "*/*"})
_TEXT: Final = ("content-type", "text/plain; charset=utf-8")


class _Document(NamedTuple):
    """An encoded document with its hash and the kinds it was created from."""

    body: bytes
    hash: str
    kinds: tuple[ServedKind, ...] = ()


class Documents:
    """The documents for one set of kinds.

    ``server`` is the address shown to clients. ``previous``: the documents of the previous set of kinds, for reuse.
    ``groups`` and ``discovered``: the groups of other servers, as in lists and as in aggregated discovery.
    """

    def __init__(
        self, kinds: Sequence[ServedKind], *, release: str, server: str = "", previous: Documents | None = None,
        groups: Sequence[Tree] = (), discovered: Sequence[Tree] = (),
    ) -> None:  # fmt: skip
        self._other_groups, self._discovered = groups, discovered
        self._kinds = tuple(kinds)
        self._groups = by_group(kinds)
        self._release = release
        self._server = server
        self._documents: dict[str, _Document] = {}
        self._previous = previous._documents if previous is not None else {}

    def respond(self, request: Request) -> Response | None:
        """The response to a GET; None for other paths."""
        path = request.path
        steps = path.strip("/").split("/")
        match steps[0]:
            case "version" if len(steps) == 1:
                if not _accepts_json(request.headers.get("accept", "")):
                    raise api_errors.not_acceptable(f"406: Not Acceptable\n\nAvailable representations: {_JSON}", {})
                return self._tree(path, lambda: version_info(self._release))
            case "api" | "apis" if len(steps) <= 3:
                return _in_media(request, self._discovery(request, steps))
            case "openapi":
                return self._openapi(request, steps)
        return None

    # --- discovery ---------------------------------------------------------------------------------------------------

    def _discovery(self, request: Request, steps: list[str]) -> Response | None:
        core = steps[0] == "api"
        match steps[1:]:
            case []:
                if _wants_aggregated(request.headers.get("accept", "")):
                    document = self._make(f"aggregated {steps[0]}", lambda: self._aggregated(core=core))
                    return _tagged(request, document, _AGGREGATED, ("cache-control", "public"))
                if core:
                    return self._tree(request.path, lambda: discovery.api_versions(self._server))
                return self._tree(request.path, lambda: discovery.api_groups(self._kinds, self._other_groups))
            case [group] if not core:
                return self._tree(request.path, lambda: discovery.api_group(self._kinds, group, self._other_groups))
            case [version] if core:
                tree = self._tree(request.path, lambda: discovery.api_resources(self._kinds, "", version))
                return _no_such_version() if tree.code == 404 else tree
            case [group, version] if not core:
                tree = self._tree(request.path, lambda: discovery.api_resources(self._kinds, group, version))
                # The whole group of a custom resource is unknown where it is not served.
                built_in = any(not kind.shapes for kinds in self._groups.get(group, {}).values() for kind in kinds)
                return _no_such_version() if tree.code == 404 and built_in else tree
        return None

    def _aggregated(self, *, core: bool) -> Tree:
        return discovery.discovery(self._kinds, core=core, others=() if core else self._discovered)

    # --- OpenAPI -----------------------------------------------------------------------------------------------------

    def _openapi(self, request: Request, steps: list[str]) -> Response | None:
        match steps[1:]:
            case ["v3"]:
                document = self._make("openapi", self._index)
                return Response(200, (_PRIVATE, _TEXT), document.body)
            case ["v3", "version"]:
                return self._hashed(request, "version", self._version_document())
            case ["v3", "api", version] if version in self._groups.get("", {}):
                return self._hashed(request, _document_path("", version), self._document("", version))
            case ["v3", "apis", group, version] if group and version in self._groups.get(group, {}):
                return self._hashed(request, _document_path(group, version), self._document(group, version))
            case ["v2"]:
                accept = request.headers.get("accept", "")
                if _accepts_json(accept):
                    return _tagged(request, self._make("openapi v2", self._openapi_v2), _JSON, _PRIVATE)
                if is_accepted(accept):
                    document = self._cached("openapi v2 protobuf", lambda: openapi_v2_protobuf(self._openapi_v2()))
                    return _tagged(request, document, MEDIA_TYPE, _PRIVATE)
                return _not_acceptable()
            case ["v3", *_]:
                return Response(404, (_PRIVATE,), b"")
        return None

    def _index(self) -> Tree:
        documents = {"version": self._version_document()}
        for group, versions in self._groups.items():
            documents |= {_document_path(group, version): self._document(group, version) for version in versions}
        return {
            "paths": {
                path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={documents[path].hash}"}
                for path in sorted(documents)
            }
        }

    def _version_document(self) -> _Document:
        return self._make("openapi version", lambda: openapi_v3_version(self._release))

    def _openapi_v2(self) -> Tree:
        documents = (
            openapi_v3(kinds, group, version, self._release)
            for group, versions in self._groups.items()
            for version, kinds in versions.items()
        )
        custom = {definition_name(kind, version) for kind in self._kinds for version in kind.schemas}
        return openapi_v2(documents, self._release, custom)

    def _hashed(self, request: Request, path: str, document: _Document) -> Response:
        """A document addressed by hash: immutable if the hash is current; otherwise a redirect to the current one."""
        requested_hash = parse_qs(request.query).get("hash", [""])[0]
        if requested_hash and requested_hash.upper() != document.hash:
            where = f"/openapi/v3/{path}?hash={document.hash}"
            return Response(301, (_PRIVATE, ("etag", f'"{document.hash}"'), ("location", where), _VARY), b"")
        caching = ("cache-control", "public, immutable") if requested_hash else _PRIVATE
        return _tagged(request, document, _JSON, caching)

    def _document(self, group: str, version: str) -> _Document:
        kinds = tuple(self._groups[group][version])
        key = f"openapi {group_version(group, version)}"
        before = self._previous.get(key)
        if before is not None and len(before.kinds) == len(kinds) and all(map(_same, before.kinds, kinds)):
            self._documents.setdefault(key, before)
        return self._make(key, lambda: openapi_v3(kinds, group, version, self._release), kinds)

    # --- documents ---------------------------------------------------------------------------------------------------

    def _make(self, key: str, tree: Callable[[], Tree], kinds: tuple[ServedKind, ...] = ()) -> _Document:
        return self._cached(key, lambda: msgspec.json.encode(tree()), kinds)

    def _cached(self, key: str, make: Callable[[], bytes], kinds: tuple[ServedKind, ...] = ()) -> _Document:
        document = self._documents.get(key)
        if document is None:
            body = make()
            document = self._documents[key] = _Document(body, hashlib.sha512(body).hexdigest().upper(), kinds)
        return document

    def _tree(self, path: str, tree: Callable[[], Tree | None]) -> Response:
        cached = self._documents.get(path)
        if cached is None:
            document = tree()
            if document is None:
                return not_found()
            cached = self._make(path, lambda: document)
        return Response(200, (_PRIVATE, ("content-type", _JSON)), cached.body)


def _in_media(request: Request, response: Response | None) -> Response | None:
    """A document in the media type that the client accepts: JSON or YAML. Raises StatusError 406."""
    accept = request.headers.get("accept", "")
    if not accept or response is None or response.code != 200 or _wants_aggregated(accept):
        return response
    form = negotiate(accept, tables=False)
    if form.media != YAML:
        return response
    headers = (_PRIVATE, ("content-type", YAML))
    return Response(200, headers, encode_tree(msgspec.json.decode(response.body), form))


def not_found() -> Response:
    """404 where there is no API at all."""
    return Response(404, (_PRIVATE, _TEXT, ("x-content-type-options", "nosniff")), b"404 page not found\n")


def _no_such_version() -> Response:
    status = failure_status(404, "NotFound", "the server could not find the requested resource", {})
    return Response(404, (_PRIVATE, ("content-type", _JSON)), msgspec.json.encode(status))


def _same(left: ServedKind, right: ServedKind) -> bool:
    return left is right


def _document_path(group: str, version: str) -> str:
    return f"{'apis' if group else 'api'}/{group_version(group, version)}"


def _tagged(request: Request, document: _Document, media: str, caching: tuple[str, str]) -> Response:
    """The document, or 304 if the client's ETag matches."""
    etag = f'"{document.hash}"'
    etags = [part.strip().removeprefix("W/") for part in request.headers.get("if-none-match", "").split(",")]
    if etag in etags or "*" in etags:
        return Response(304, (caching, ("etag", etag), _VARY), b"")
    return Response(200, (caching, ("content-type", media), ("etag", etag), _VARY), document.body)


def _not_acceptable() -> Response:
    message = f"only the following media types are accepted: {_JSON}, {MEDIA_TYPE}"
    status = failure_status(406, "NotAcceptable", message, {})
    return Response(406, (_PRIVATE, ("content-type", _JSON)), msgspec.json.encode(status))


def _accepts_json(accept: str) -> bool:
    return not accept or any(clause.split(";")[0].strip() in _JSON_MEDIA_TYPES for clause in accept.split(","))


def _wants_aggregated(accept: str) -> bool:
    """Whether the first supported media type that the client accepts is the aggregated form."""
    for clause in accept.split(","):
        media, *parts = (part.strip() for part in clause.split(";"))
        parameters = dict(part.split("=", 1) for part in parts if "=" in part)
        if media in _JSON_MEDIA_TYPES:
            if parameters.get("as") is None:
                return False
            if parameters["as"] == "APIGroupDiscoveryList" and parameters.get("v") == "v2":
                return parameters.get("g") == "apidiscovery.k8s.io"
    return False
