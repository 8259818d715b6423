"""Reads the objects of ``-f`` for a cluster, unchanged.

The cluster validates them, by its version and kinds; only unreadable files are errors here.
"""

from __future__ import annotations

import io
import sys
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path

from allotment.cli.output.errors import Failure
from allotment.cluster.inspection.discovery import Discovery, ServedResource
from allotment.cluster.remote.kubeconfig import ClusterTarget
from allotment.errors import InputError, InvalidManifests
from allotment.model.features import GATED_RESOURCES
from allotment.model.loading import Document, load_paths
from allotment.tools.check.objects.api_versions import VERSIONS, VersionLifetime


def documents(arguments: Namespace) -> list[Document]:
    """Return all objects of the files. Raises InvalidManifests for unreadable ones."""
    paths = [path for group in arguments.files for path in group]
    data = sys.stdin.buffer.read() if "-" in paths else b""
    loaded = load_paths(paths, io.BytesIO(data))

    def source(file: str) -> str | None:
        if file == "<stdin>":
            return data.decode("utf-8", "replace")
        return Path(file).read_text("utf-8", "replace") if Path(file).is_file() else None

    if loaded.problems:
        raise InvalidManifests(loaded.problems, source)
    if not loaded.documents:
        raise InputError(f"no Kubernetes objects in {', '.join(paths)}")
    return loaded.documents


def served_by(discovery: Discovery, document: Document) -> ServedResource:
    """Return the kind of an object. Raises Failure with kubectl's message."""
    found = discovery.by_type(document.api_version, document.kind)
    if found is None:
        if not document.api_version or not document.kind:
            missing = "Kind" if not document.kind else "apiVersion"
            raise Failure(f"error: {document.position()}: Object '{missing}' is missing")
        words = f'no matches for kind "{document.kind}" in version "{document.api_version}"'
        raise Failure(
            f'error: resource mapping not found for name: "{document.name}" in "{document.position()}": {words}',
            _instead(discovery, document),
        )
    return found


def _instead(discovery: Discovery, document: Document) -> str:
    versions = [kind.resource.api_version for kind in discovery.served if kind.resource.kind == document.kind]
    if versions:
        return f"the cluster serves this kind in {', '.join(dict.fromkeys(versions))}"
    known = VERSIONS.get((document.api_version.partition("/")[0], document.kind))
    if known is not None:
        return _not_enabled(document, known)
    from difflib import get_close_matches

    near = get_close_matches(document.kind, sorted({kind.resource.kind for kind in discovery.served}), 1)
    return f"did you mean {near[0]}?" if near else "ensure CRDs are installed first"


def _not_enabled(document: Document, known: Mapping[str, VersionLifetime]) -> str:
    """Return what a server needs to serve a kind of Kubernetes that it does not serve."""
    group, kind = document.api_version.partition("/")[0], document.kind
    since = ", ".join(f"{version} since {lifetime.since}" for version, lifetime in known.items())
    gates = GATED_RESOURCES.get(f"{kind.lower()}s", ())
    gate = f", and the feature gate {gates[0]}" if gates else ""
    return (
        f"the cluster does not serve {kind} (Kubernetes has {since}): alpha and beta versions require "
        f"--runtime-config={group}/VERSION=true{gate}"
    )


def place_of(document: Document, served: ServedResource, arguments: Namespace, way: ClusterTarget) -> str:
    """Return the namespace of an object. Raises Failure if it differs from ``-n``."""
    if not served.resource.namespaced:
        return ""
    metadata = document.tree.get("metadata")
    own = metadata.get("namespace") if isinstance(metadata, dict) else None
    if own and not isinstance(own, str):
        raise Failure(f"error: {document.position(('metadata', 'namespace'))}: metadata.namespace is not a string")
    if own and arguments.namespace and own != arguments.namespace:
        raise Failure(
            f'error: the namespace from the provided object "{own}" does not match the namespace '
            f"\"{arguments.namespace}\". You must pass '--namespace={own}' to perform this operation."
        )
    return own or arguments.namespace or way.namespace
