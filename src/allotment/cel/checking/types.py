"""CEL's static types, interned: one Python object per type, so that equality is identity.

A type is a kind, a name and parameters. The names are those that ``type(x)`` prints (``google.protobuf.Timestamp``);
overload errors use another spelling for a few (``timestamp``), kept as `Type.key`.
"""

from __future__ import annotations

from enum import IntEnum

#: Bindings can double a map type with each use, so written types could grow without bound.
_MAX_SIZE = 2_000


class TypeTooLargeError(Exception):
    """Raised when a type would have more than 2,000 names in it; no useful expression has one of 50."""


class TypeKind(IntEnum):
    """Categories that unification tells apart."""

    ERROR = 0
    DYN = 1
    ANY = 2
    BOOL = 3
    BYTES = 4
    DOUBLE = 5
    DURATION = 6
    INT = 7
    LIST = 8
    MAP = 9
    NULL = 10
    OPAQUE = 11
    STRING = 12
    STRUCT = 13
    TIMESTAMP = 14
    TYPE = 15
    PARAM = 16
    UINT = 17


class Type:
    """A static type. Build it with the functions below, never directly: identity is equality.

    ``closed`` is true when no type parameter occurs in it, so substitution can leave it alone. ``dynamic`` is true for
    dyn and Any. ``nullable`` marks the protobuf wrapper types, to which null may be assigned. ``size`` counts the names
    in the written type.
    """

    __slots__ = ("kind", "name", "params", "closed", "dynamic", "nullable", "size", "display_name")

    def __init__(self, kind: TypeKind, name: str, params: tuple[Type, ...], nullable: bool = False) -> None:
        self.kind = kind
        self.name = name
        self.params = params
        self.nullable = nullable
        self.closed: bool = kind is not TypeKind.PARAM and all(p.closed for p in params)
        self.dynamic = kind is TypeKind.DYN or kind is TypeKind.ANY
        self.size: int = 1 + sum(p.size for p in params)
        if self.size > _MAX_SIZE:
            raise TypeTooLargeError
        #: How the type is spelled in overload errors; type parameters are bound under this spelling.
        self.display_name = _display(self)

    def __str__(self) -> str:
        """The spelling of ``outputType`` and of type errors that do not concern overloads."""
        if self.kind is TypeKind.PARAM:
            return f"<{self.name}>"
        name = f"wrapper({self.name})" if self.nullable else self.name
        if not self.params:
            return name
        return f"{name}({', '.join(str(p) for p in self.params)})"

    def __repr__(self) -> str:
        return f"Type({self})"


_OVERLOAD_NAMES = {
    TypeKind.ANY: "any",
    TypeKind.DURATION: "duration",
    TypeKind.ERROR: "!error!",
    TypeKind.NULL: "null",
    TypeKind.TIMESTAMP: "timestamp",
}


def _display(t: Type) -> str:
    """The spelling in overload and mismatch errors: ``any``, ``null``, ``timestamp``, ``list(int)``."""
    special = _OVERLOAD_NAMES.get(t.kind)
    if special is not None:
        return special
    if not t.params:
        return f"wrapper({t.name})" if t.nullable else t.name
    return f"{t.name}({', '.join(p.display_name for p in t.params)})"


_INTERNED: dict[tuple[TypeKind, str, tuple[Type, ...], bool], Type] = {}


def _intern(kind: TypeKind, name: str, params: tuple[Type, ...] = (), nullable: bool = False) -> Type:
    key = (kind, name, params, nullable)
    found = _INTERNED.get(key)
    if found is None:
        found = _INTERNED.setdefault(key, Type(kind, name, params, nullable))
    return found


ERROR = _intern(TypeKind.ERROR, "error")
DYN = _intern(TypeKind.DYN, "dyn")
ANY = _intern(TypeKind.ANY, "google.protobuf.Any")
BOOL = _intern(TypeKind.BOOL, "bool")
BYTES = _intern(TypeKind.BYTES, "bytes")
DOUBLE = _intern(TypeKind.DOUBLE, "double")
DURATION = _intern(TypeKind.DURATION, "google.protobuf.Duration")
INT = _intern(TypeKind.INT, "int")
NULL = _intern(TypeKind.NULL, "null_type")
STRING = _intern(TypeKind.STRING, "string")
TIMESTAMP = _intern(TypeKind.TIMESTAMP, "google.protobuf.Timestamp")
UINT = _intern(TypeKind.UINT, "uint")
#: ``type`` without a parameter.
TYPE = _intern(TypeKind.TYPE, "type")


def list_of(element: Type) -> Type:
    """``list(element)``."""
    return _intern(TypeKind.LIST, "list", (element,))


def map_of(key: Type, value: Type) -> Type:
    """``map(key, value)``."""
    return _intern(TypeKind.MAP, "map", (key, value))


def type_of(t: Type) -> Type:
    """The type of a type value: ``type(t)``."""
    return _intern(TypeKind.TYPE, "type", (t,))


def param(name: str) -> Type:
    """A type parameter."""
    return _intern(TypeKind.PARAM, name)


def opaque(name: str, *params: Type) -> Type:
    """An abstract type such as ``optional_type(T)``."""
    return _intern(TypeKind.OPAQUE, name, params)


def struct(name: str) -> Type:
    """An object type known by name only (Kubernetes' own values, ``kubernetes.DRADevice``)."""
    return _intern(TypeKind.STRUCT, name)


def optional_of(t: Type) -> Type:
    """``optional_type(t)``."""
    return _intern(TypeKind.OPAQUE, "optional_type", (t,))


def wrapper(t: Type) -> Type:
    """The nullable form of a primitive type (``google.protobuf.Int64Value``)."""
    return _intern(t.kind, t.name, t.params, True)


LIST_DYN = list_of(DYN)
QUANTITY = struct("kubernetes.Quantity")
SEMVER = struct("kubernetes.Semver")
URL = struct("kubernetes.URL")
FORMAT = struct("kubernetes.NamedFormat")
IP = opaque("net.IP")
CIDR = opaque("net.CIDR")
DEVICE = struct("kubernetes.DRADevice")
