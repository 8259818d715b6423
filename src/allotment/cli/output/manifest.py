"""Converts objects to manifests: ``apiVersion`` and ``kind`` first, then the fields in Kubernetes' order."""

from __future__ import annotations

from typing import Any

import msgspec


def plain(value: msgspec.Struct) -> dict[str, Any]:
    """Return an object as a mapping for YAML and JSON; quantities become strings, unset fields are omitted."""
    kind = type(value).__name__
    group = "v1" if kind == "Node" else "resource.k8s.io/v1"
    return {"apiVersion": group, "kind": kind, **fields(value)}


def fields(value: msgspec.Struct) -> dict[str, Any]:
    """Return a value's fields without ``apiVersion`` and ``kind``."""
    # Via JSON, because msgspec then converts tuples to lists and quantities to strings.
    built: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(value, enc_hook=str))
    return built
