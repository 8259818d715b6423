"""Metadata of Kubernetes objects, and the base classes of object values."""

from __future__ import annotations

from typing import Any

import msgspec


class Value(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Base of all object values: immutable, compared by content, camelCase in JSON.

    Fields are in Go's order, so that an encoded value looks as Kubernetes prints it. A Go pointer is ``X | None``; any
    other unset field has Go's zero value. Unset fields are omitted, as with ``omitempty``.
    """

    def to_dict(self) -> dict[str, Any]:
        """Return the value as JSON data: quantities become strings, tuples become lists."""
        # Via JSON, because msgspec then converts tuples to lists.
        data: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self, enc_hook=str))
        return data


class OwnerReference(Value, frozen=True):
    """An owner of an object; the object is garbage-collected with it."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(Value, frozen=True):
    """``metadata``. Times are RFC 3339 strings, as received."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()


class Object(Value, frozen=True):
    """An API object with metadata."""

    metadata: ObjectMeta = ObjectMeta()

    @property
    def key(self) -> ObjectKey:
        """Namespace and name."""
        return ObjectKey(self.metadata.namespace, self.metadata.name)


class Condition(Value, frozen=True):
    """A ``metav1.Condition``."""

    type: str = ""
    status: str = ""
    observed_generation: int = 0
    last_transition_time: str | None = None
    reason: str = ""
    message: str = ""


class ObjectKey(msgspec.Struct, frozen=True, order=True):
    """Namespace and name; the namespace of a cluster-scoped object is empty."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name
