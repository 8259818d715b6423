"""Which parameters win for a device, and their strict reading.

Parameters come with the class and with the claim; the claim's count more, and later ones more than earlier ones. An
entry is for the requests that it names, or for all. One claim can mix kinds of devices (whole GPUs and MIG): parameters
for all requests pass over devices that they are not for, while parameters that name a request must suit its device.

They are opaque to Kubernetes, so this is the first place that looks into them. What is wrong here stays wrong however
often it is tried, so a refusal is permanent unless the driver says otherwise, and tells all that is needed to correct
it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

import msgspec
from msgspec import inspect

from allotment.drivers.driver import Refused
from allotment.model.quantity import Quantity, QuantityError
from allotment.model.resource import DeviceAllocationConfiguration

Configs = Mapping[tuple[str, str], type]


class Reader(Protocol):
    """The part of a driver that knows its parameters."""

    @property
    def name(self) -> str:
        """The driver's name."""
        ...

    @property
    def configs(self) -> Configs:
        """Types by (apiVersion, kind)."""
        ...

    def suits(self, device: str, config: Any) -> bool:
        """Whether parameters are for that kind of device."""
        ...

    def validate(self, config: Any) -> None:
        """Check parameters beyond their types. Raises Refused."""
        ...


class Entry(NamedTuple):
    """Parameters of one entry, read. ``place`` says in messages where it stands."""

    place: str
    requests: tuple[str, ...]
    kind: str
    config: Any


def read(driver: Reader, entries: Iterable[DeviceAllocationConfiguration]) -> tuple[Entry, ...]:
    """The entries for a driver, weakest first, all of them read and validated. Raises Refused."""
    found = []
    for index, entry in enumerate(entries):
        if entry.opaque is None:
            raise Refused(f"config[{index}]: wanted opaque parameters, found another sort of them", permanent=True)
        if entry.opaque.driver != driver.name:
            continue
        origin = "of the device class" if entry.source == "FromClass" else "of the claim"
        place = f"config[{index}] ({origin})"
        try:
            config = decode(entry.opaque.parameters, driver.configs)
            driver.validate(config)
        except Refused as error:
            raise Refused(f"{place}: {error}", permanent=error.permanent is not False) from None
        found.append(
            (entry.source != "FromClass", Entry(place, entry.requests, entry.opaque.parameters["kind"], config))
        )
    # Class before claim, whatever the order in the list (KEP-4381); each in its own order.
    return tuple(entry for _, entry in sorted(found, key=lambda pair: pair[0]))


def winner(driver: Reader, entries: Sequence[Entry], request: str, device: str) -> Any:
    """The parameters for a device that a request was given; None where there are none. Raises Refused.

    ``request``: as the allocation has it, ``main`` or ``main/sub``; entries may name either.
    """
    names = {request, request.partition("/")[0]}
    for entry in reversed(entries):
        if entry.requests and names.isdisjoint(entry.requests):
            continue
        if driver.suits(device, entry.config):
            return entry.config
        if entry.requests:
            raise Refused(
                f"{entry.place}: {entry.kind} is not for device {device}, which request {request} was given; "
                f"name only requests for devices that {entry.kind} suits",
                permanent=True,
            )
    return None


# --- strict reading ----------------------------------------------------------------------------------------------


def decode(parameters: Any, configs: Configs) -> Any:
    """The value of a driver's parameters. Raises Refused with the path, what was found and what is wanted.

    >>> class Mode(msgspec.Struct):
    ...     speed: int = 1
    >>> decode({"apiVersion": "v1", "kind": "Mode", "sped": 2}, {("v1", "Mode"): Mode})
    Traceback (most recent call last):
    ...
    allotment.drivers.driver.Refused: sped: Mode has no such field; did you mean "speed"?
    """
    if not isinstance(parameters, dict):
        raise Refused(f"parameters: wanted an object, found {_shown(parameters)}", permanent=True)
    version, kind = parameters.get("apiVersion"), parameters.get("kind")
    wanted = configs.get((version, kind)) if isinstance(version, str) and isinstance(kind, str) else None
    if wanted is None:
        raise Refused(_unknown_kind(version, kind, configs), permanent=True)
    tree = {key: value for key, value in parameters.items() if key not in ("apiVersion", "kind")}
    faults = list(_faults(tree, inspect.type_info(wanted), ""))
    if faults:
        raise Refused("; ".join(faults), permanent=True)
    try:
        return msgspec.convert(tree, wanted, dec_hook=_decode)
    except (msgspec.ValidationError, QuantityError) as error:
        # The walk knows names and closed sets; what is left are bounds and patterns of the type itself.
        text, _, path = str(error).partition(" - at `$")
        raise Refused(f"{path.rstrip('`').lstrip('.') or 'parameters'}: {text}", permanent=True) from None


def _decode(wanted: type, value: Any) -> Any:
    if wanted is Quantity:
        return Quantity.parse(value) if isinstance(value, str) else Quantity.of_int(value)
    raise NotImplementedError(wanted)


def _unknown_kind(version: object, kind: object, configs: Configs) -> str:
    known = (
        ", ".join(f"{kind} of {version}" for version, kind in sorted(configs)) or "none: this driver has no parameters"
    )
    if version is None or kind is None:
        missing = " and ".join(name for name, value in (("apiVersion", version), ("kind", kind)) if value is None)
        return f"{missing}: wanted, found none; known are {known}"
    for known_version, known_kind in configs:
        if known_kind == kind:
            return f'apiVersion: {kind} is of "{known_version}", found {_shown(version)}'
    near = _near(kind, [known_kind for _, known_kind in configs])
    return f"kind: found {_shown(kind)} of {_shown(version)}; known are {known}{near}"


def _faults(value: Any, type: inspect.Type, path: str) -> Iterator[str]:
    """Names and values that a type has not, at their paths."""
    if isinstance(type, inspect.UnionType):
        if value is None and any(isinstance(each, inspect.NoneType) for each in type.types):
            return
        fitting = [each for each in type.types if not isinstance(each, inspect.NoneType)]
        if len(fitting) == 1:
            yield from _faults(value, fitting[0], path)
    elif isinstance(type, inspect.StructType):
        yield from _struct_faults(value, type, path)
    elif isinstance(type, inspect.DictType):
        if not isinstance(value, dict):
            yield _wrong(path, "an object", value)
            return
        for key, each in value.items():
            yield from _faults(each, type.value_type, f"{path}[{_shown(key)}]")
    elif isinstance(type, inspect.VarTupleType | inspect.ListType):
        if not isinstance(value, list):
            yield _wrong(path, "a list", value)
            return
        for index, each in enumerate(value):
            yield from _faults(each, type.item_type, f"{path}[{index}]")
    elif isinstance(type, inspect.LiteralType | inspect.EnumType):
        known = [each.value for each in type.cls] if isinstance(type, inspect.EnumType) else list(type.values)
        if value not in known or isinstance(value, bool):
            wanted = ", ".join(_shown(each) for each in known)
            yield f"{path}: wanted one of {wanted}, found {_shown(value)}{_near(value, known)}"
    elif isinstance(type, inspect.CustomType) and type.cls is Quantity:
        yield from _quantity_faults(value, path)
    else:
        for kind, (fits, wanted) in _PLAIN.items():
            if isinstance(type, kind) and (
                not isinstance(value, fits) or (isinstance(value, bool) and fits is not bool)
            ):
                yield _wrong(path, wanted, value)


def _struct_faults(value: Any, type: inspect.StructType, path: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield _wrong(path, "an object", value)
        return
    fields = {field.encode_name: field for field in type.fields}
    for key, each in value.items():
        at = f"{path}.{key}" if path else str(key)
        if key in fields:
            yield from _faults(each, fields[key].type, at)
        else:
            near = _near(key, fields) or f"; its fields are {', '.join(fields) or 'none'}"
            yield f"{at}: {type.cls.__name__} has no such field{near}"
    for name, field in fields.items():
        if field.required and name not in value:
            yield f"{f'{path}.{name}' if path else name}: wanted, found none"


def _quantity_faults(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, str):
        try:
            Quantity.parse(value)
        except QuantityError:
            yield _wrong(path, 'a quantity such as "512Mi"', value)
    elif isinstance(value, bool) or not isinstance(value, int):
        yield _wrong(path, 'a quantity such as "512Mi"', value)


_PLAIN: Final[Mapping[type[inspect.Type], tuple[type | tuple[type, ...], str]]] = {
    inspect.IntType: (int, "a whole number"),
    inspect.FloatType: ((int, float), "a number"),
    inspect.StrType: (str, "a string"),
    inspect.BoolType: (bool, "true or false"),
}


def _wrong(path: str, wanted: str, found: Any) -> str:
    return f"{path}: wanted {wanted}, found {_shown(found)}"


def _near(name: Any, known: Iterable[Any]) -> str:
    """`; did you mean "x"?`, also where only the case differs; empty where nothing is near."""
    by_case = {str(each).casefold(): str(each) for each in known}
    close = difflib.get_close_matches(str(name).casefold(), by_case, 1, 0.6)
    return f'; did you mean "{by_case[close[0]]}"?' if close else ""


def _shown(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 60 else f"{text[:57]}..."
