"""Object values as plain manifests: ``apiVersion`` and ``kind`` first, then the fields as Kubernetes prints them."""

from __future__ import annotations

from typing import Any

import msgspec


def plain(value: msgspec.Struct) -> dict[str, Any]:
    """An object as the mapping that YAML and JSON show; quantities become text, unset fields are left out."""
    kind = type(value).__name__
    group = "v1" if kind == "Node" else "resource.k8s.io/v1"
    return {"apiVersion": group, "kind": kind, **fields(value)}


def fields(value: msgspec.Struct) -> dict[str, Any]:
    """A value without ``apiVersion`` and ``kind``."""
    # By way of JSON because msgspec then makes lists of tuples, and asks for text wherever a Quantity stands.
    built: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(value, enc_hook=str))
    return built
