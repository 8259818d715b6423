"""The types that CEL's type checker assigns to expressions. They are interned, so equality is identity.

A type has a kind, a name and parameters. The name is the one that ``type(x)`` prints (``google.protobuf.Timestamp``);
overload errors show `Type.display_name`, which differs for a few types (``timestamp``).
"""

from __future__ import annotations

from enum import IntEnum

#: Limit on `Type.size`: each use of a ``cel.bind`` variable can double the size of a map type.
_MAX_SIZE = 2_000


class TypeTooLargeError(Exception):
    """Raised when the spelling of a type would have more than 2,000 names; useful expressions need fewer than 50."""


class TypeKind(IntEnum):
    """The categories of types that unification distinguishes."""

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
    """A static type. Create it with the functions below, never directly: equality is identity.

    ``closed`` is true if the type contains no type parameter, so that substitution does not change it. ``dynamic`` is
    true for dyn and Any. ``nullable`` marks the protobuf wrapper types, to which null is assignable. ``size`` is the
    number of names in the type's spelling.
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
        #: The spelling in overload errors.
        self.display_name = _display(self)

    def __str__(self) -> str:
        """The spelling in ``outputType`` and in errors other than overload errors."""
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
    """The spelling in overload and mismatch errors, e.g. ``any``, ``null``, ``timestamp``, ``list(int)``."""
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
    return _intern(TypeKind.PARAM, name)


def opaque(name: str, *params: Type) -> Type:
    """An abstract type such as ``optional_type(T)``."""
    return _intern(TypeKind.OPAQUE, name, params)


def struct(name: str) -> Type:
    """An object type that is identified by its name (``kubernetes.Quantity``, ``kubernetes.DRADevice``)."""
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
