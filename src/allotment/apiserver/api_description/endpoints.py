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
from allotment.apiserver.api_description import discovery
from allotment.apiserver.api_description.groups import by_group, group_version
from allotment.apiserver.api_description.openapi import openapi_v3, openapi_v3_version
from allotment.apiserver.api_description.openapi_v2 import openapi_v2
from allotment.apiserver.api_description.openapi_v2_protobuf import MEDIA_TYPE, openapi_v2_protobuf, wanted
from allotment.apiserver.http_messages import Request, Response
from allotment.apiserver.kinds.kind import ServedKind
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
_TAKEN: Final = frozenset({_JSON, "application/*", "*/*"})
_TEXT: Final = ("content-type", "text/plain; charset=utf-8")


class _Document(NamedTuple):
    """An encoded document with its hash and the kinds it was created from."""

    body: bytes
    hash: str
    kinds: tuple[ServedKind, ...] = ()


class Documents:
    """The documents for one set of kinds.

    ``server`` is the address shown to clients. ``previous``: the documents of the previous set of kinds, for reuse.
    """

    def __init__(
        self, kinds: Sequence[ServedKind], *, release: str = "1.36", server: str = "", previous: Documents | None = None
    ) -> None:
        self._kinds = tuple(kinds)
        self._groups = by_group(kinds)
        self._release = release
        self._server = server
        self._made: dict[str, _Document] = {}
        self._before = previous._made if previous is not None else {}

    def answer(self, request: Request) -> Response | None:
        """The response to a GET; None for other paths."""
        path = request.path
        steps = path.strip("/").split("/")
        match steps[0]:
            case "version" if len(steps) == 1:
                return self._tree(path, lambda: version_info(self._release))
            case "api" | "apis" if len(steps) <= 3:
                return self._discovery(request, steps)
            case "openapi":
                return self._openapi(request, steps)
        return None

    # --- discovery ---------------------------------------------------------------------------------------------------

    def _discovery(self, request: Request, steps: list[str]) -> Response | None:
        core = steps[0] == "api"
        match steps[1:]:
            case []:
                if _wants_aggregated(request.headers.get("accept", "")):
                    made = self._make(f"aggregated {steps[0]}", lambda: discovery.discovery(self._kinds, core=core))
                    return _tagged(request, made, _AGGREGATED, ("cache-control", "public"))
                if core:
                    return self._tree(request.path, lambda: discovery.api_versions(self._server))
                return self._tree(request.path, lambda: discovery.api_groups(self._kinds))
            case [group] if not core:
                return self._tree(request.path, lambda: discovery.api_group(self._kinds, group))
            case [version] if core:
                found = self._tree(request.path, lambda: discovery.api_resources(self._kinds, "", version))
                return _no_such_version() if found.code == 404 else found
            case [group, version] if not core:
                return self._tree(request.path, lambda: discovery.api_resources(self._kinds, group, version))
        return None

    # --- OpenAPI -----------------------------------------------------------------------------------------------------

    def _openapi(self, request: Request, steps: list[str]) -> Response | None:
        match steps[1:]:
            case ["v3"]:
                made = self._make("openapi", self._index)
                return Response(200, (_PRIVATE, _TEXT), made.body)
            case ["v3", "version"]:
                return self._hashed(request, "version", self._version_document())
            case ["v3", "api", version] if version in self._groups.get("", {}):
                return self._hashed(request, _document_path("", version), self._document("", version))
            case ["v3", "apis", group, version] if group and version in self._groups.get(group, {}):
                return self._hashed(request, _document_path(group, version), self._document(group, version))
            case ["v2"]:
                accept = request.headers.get("accept", "")
                if _takes_json(accept):
                    return _tagged(request, self._make("openapi v2", self._openapi_v2), _JSON, _PRIVATE)
                if wanted(accept):
                    made = self._keep("openapi v2 protobuf", lambda: openapi_v2_protobuf(self._openapi_v2()))
                    return _tagged(request, made, MEDIA_TYPE, _PRIVATE)
                return _not_acceptable()
            case ["v3", *_]:
                return Response(404, (_PRIVATE,), b"")
        return None

    def _index(self) -> Tree:
        made = {"version": self._version_document()}
        for group, versions in self._groups.items():
            made |= {_document_path(group, version): self._document(group, version) for version in versions}
        return {
            "paths": {
                path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={made[path].hash}"} for path in sorted(made)
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
        return openapi_v2(documents, self._release)

    def _hashed(self, request: Request, path: str, made: _Document) -> Response:
        """A document addressed by hash: immutable if the hash is current; otherwise a redirect to the current one."""
        requested_hash = parse_qs(request.query).get("hash", [""])[0]
        if requested_hash and requested_hash.upper() != made.hash:
            where = f"/openapi/v3/{path}?hash={made.hash}"
            return Response(301, (_PRIVATE, ("etag", f'"{made.hash}"'), ("location", where), _VARY), b"")
        caching = ("cache-control", "public, immutable") if requested_hash else _PRIVATE
        return _tagged(request, made, _JSON, caching)

    def _document(self, group: str, version: str) -> _Document:
        kinds = tuple(self._groups[group][version])
        key = f"openapi {group_version(group, version)}"
        before = self._before.get(key)
        if before is not None and len(before.kinds) == len(kinds) and all(map(_same, before.kinds, kinds)):
            self._made.setdefault(key, before)
        return self._make(key, lambda: openapi_v3(kinds, group, version, self._release), kinds)

    # --- documents ---------------------------------------------------------------------------------------------------

    def _make(self, key: str, tree: Callable[[], Tree], kinds: tuple[ServedKind, ...] = ()) -> _Document:
        return self._keep(key, lambda: msgspec.json.encode(tree()), kinds)

    def _keep(self, key: str, make: Callable[[], bytes], kinds: tuple[ServedKind, ...] = ()) -> _Document:
        made = self._made.get(key)
        if made is None:
            body = make()
            made = self._made[key] = _Document(body, hashlib.sha512(body).hexdigest().upper(), kinds)
        return made

    def _tree(self, path: str, tree: Callable[[], Tree | None]) -> Response:
        known = self._made.get(path)
        if known is None:
            found = tree()
            if found is None:
                return not_found()
            known = self._make(path, lambda: found)
        return Response(200, (_PRIVATE, ("content-type", _JSON)), known.body)


def not_found() -> Response:
    """404 where there is no API at all."""
    return Response(404, (_PRIVATE, _TEXT, ("x-content-type-options", "nosniff")), b"404 page not found\n")


def _no_such_version() -> Response:
    status = failure_status(404, "NotFound", "the server could not find the requested resource", {})
    return Response(404, (_PRIVATE, ("content-type", _JSON)), msgspec.json.encode(status))


def _same(one: ServedKind, other: ServedKind) -> bool:
    return one is other


def _document_path(group: str, version: str) -> str:
    return f"{'apis' if group else 'api'}/{group_version(group, version)}"


def _tagged(request: Request, made: _Document, media: str, caching: tuple[str, str]) -> Response:
    """The document, or 304 if the client's ETag matches."""
    etag = f'"{made.hash}"'
    known = [part.strip().removeprefix("W/") for part in request.headers.get("if-none-match", "").split(",")]
    if etag in known or "*" in known:
        return Response(304, (caching, ("etag", etag), _VARY), b"")
    return Response(200, (caching, ("content-type", media), ("etag", etag), _VARY), made.body)


def _not_acceptable() -> Response:
    message = f"only the following media types are accepted: {_JSON}, {MEDIA_TYPE}"
    status = failure_status(406, "NotAcceptable", message, {})
    return Response(406, (_PRIVATE, ("content-type", _JSON)), msgspec.json.encode(status))


def _takes_json(accept: str) -> bool:
    return not accept or any(clause.split(";")[0].strip() in _TAKEN for clause in accept.split(","))


def _wants_aggregated(accept: str) -> bool:
    """Whether the first supported media type that the client accepts is the aggregated form."""
    for clause in accept.split(","):
        media, *rest = (part.strip() for part in clause.split(";"))
        wanted = dict(part.split("=", 1) for part in rest if "=" in part)
        if media in _TAKEN:
            if wanted.get("as") is None:
                return False
            if wanted["as"] == "APIGroupDiscoveryList" and wanted.get("v") == "v2":
                return wanted.get("g") == "apidiscovery.k8s.io"
    return False
