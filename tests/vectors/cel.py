"""Scores recordings of CEL answers; the README of the shared vectors describes the four kinds of files.

A case passes when outcome, error text, output type, estimated and actual cost are upstream's; of syntax errors only
line, column and kind are compared, and results and costs that depend on the order of a Go map are not.
"""

from __future__ import annotations

import base64
import gzip
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from allotment.cel import CompileError, DeviceInput, EvaluationError
from allotment.cel.checking import types as cel_types
from allotment.cel.checking.checked_expression import CheckedExpression
from allotment.cel.checking.declarations import Overload, overload
from allotment.cel.checking.environment import Environment, declare_environment
from allotment.cel.checking.estimate import estimate
from allotment.cel.device import DeviceVariable
from allotment.cel.evaluation import timestamps
from allotment.cel.evaluation.library.named_formats import NamedFormat
from allotment.cel.evaluation.library.network import CIDR, IP
from allotment.cel.evaluation.library.url import URL
from allotment.cel.evaluation.values import (
    ABSENT,
    Duration,
    ListValue,
    MapValue,
    Optional,
    Timestamp,
    TypeValue,
    Uint,
    Value,
    map_key,
)
from allotment.cel.selector import (
    COST_LIMIT,
    Evaluation,
    as_bool,
    compile_checked,
    plan_checked,
    require_bool,
    run_plan,
)
from allotment.cel.syntax.parser import parse
from allotment.cel.validation_context import validation_context
from allotment.model.features import Features
from allotment.model.meta import ObjectMeta
from allotment.model.quantity import Quantity
from allotment.model.resource import (
    CELDeviceSelector,
    Device,
    DeviceAttribute,
    DeviceCapacity,
    DeviceClass,
    DeviceClassSpec,
    DeviceSelector,
)
from allotment.model.semver import Semver
from allotment.model.validation.classes import device_class
from tests.vectors.result import Result

Case = Mapping[str, Any]


def score(path: Path) -> Iterator[Result]:
    """Compare every case of a file."""
    opener: Callable[..., Any] = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            case = json.loads(line)
            name = case.get("id") or "/".join(case[k] for k in ("file", "section", "name") if k in case)
            problems = _compare(case)
            yield Result(name, not problems, f"{case.get('expression', case.get('expr'))!r}: {'; '.join(problems)}")


def _compare(case: Case) -> list[str]:
    if "dra" in case:
        return _conformance(case)
    if "expect" in case:
        return _recorded(case, case["expect"])
    return _table(case)


def _differs(what: str, wanted: object, found: object) -> list[str]:
    return [] if wanted == found else [f"{what}: expected {wanted!r}, found {found!r}"]


# --- devices and typed values ------------------------------------------------------------------------------------


def _attribute(fields: Case) -> DeviceAttribute:
    return msgspec.convert(fields, DeviceAttribute)


def device_of(described: Case) -> DeviceInput:
    """A recorded device."""
    return DeviceInput(
        described.get("driver") or "",
        Device(
            attributes={name: _attribute(a) for name, a in (described.get("attributes") or {}).items()},
            capacity={
                name: DeviceCapacity(value=Quantity.parse(c["value"]))
                for name, c in (described.get("capacity") or {}).items()
            },
            allow_multiple_allocations=described.get("allowMultipleAllocations"),
        ),
    )


_PLAIN: dict[type, str] = {bool: "bool", str: "string"}
_PRINTED: dict[type, str] = {Semver: "semver", IP: "ip", CIDR: "cidr", URL: "url"}


def typed(value: Value) -> Any:
    """A value in the notation of the recordings."""
    kind = type(value)
    if value is None:
        return {"t": "null"}
    if kind in _PLAIN:
        return {"t": _PLAIN[kind], "v": value}
    if kind in _PRINTED:
        return {"t": _PRINTED[kind], "v": str(value)}
    if kind is int or kind is Uint:
        return {"t": "int" if kind is int else "uint", "v": int(value)}
    if kind is float:
        return {"t": "double", "v": _double(value)}
    if kind is bytes:
        return {"t": "bytes", "v": base64.b64encode(value).decode()}
    if kind is ListValue:
        return {"t": "list", "v": [typed(item) for item in value.items]}
    if kind is MapValue:
        pairs = [[typed(key), typed(item)] for key, item in value.entries.values()]
        return {"t": "map", "v": sorted(pairs, key=lambda pair: json.dumps(pair[0], sort_keys=True))}
    return _typed_special(value)


def _double(value: float) -> float | str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return "-0.0" if value == 0 and math.copysign(1.0, value) < 0 else value


def _typed_special(value: Value) -> Any:
    kind = type(value)
    if kind is Duration:
        return {"t": "duration", "ns": value.ns}
    if kind is Timestamp:
        return {"t": "timestamp", "v": timestamps.format_timestamp(Timestamp(value.ns))}
    if kind is Optional:
        return {"t": "optional", "v": None if value.value is ABSENT else typed(value.value)}
    if kind is TypeValue:
        return {"t": "type", "v": value.name}
    if kind is NamedFormat:
        return {"t": "format", "v": value.name}
    if isinstance(value, Quantity):
        return {"t": "quantity", "nano": value.nano}
    return {"t": kind.__name__, "v": str(value)}


def _normal(recorded: Any) -> Any:
    """A recorded value without the parts that are not compared."""
    if not isinstance(recorded, dict):
        return recorded
    match recorded["t"]:
        case "duration":
            return {"t": "duration", "ns": recorded["ns"]}
        case "quantity":
            return {"t": "quantity", "nano": _nano(recorded["v"])}
        case "double":
            return {"t": "double", "v": recorded["v"] if isinstance(recorded["v"], str) else float(recorded["v"])}
        case "list":
            return {"t": "list", "v": [_normal(item) for item in recorded["v"]]}
        case "map":
            pairs = [[_normal(key), _normal(item)] for key, item in recorded["v"]]
            return {"t": "map", "v": sorted(pairs, key=lambda pair: json.dumps(pair[0], sort_keys=True))}
        case "optional":
            return {"t": "optional", "v": _normal(recorded["v"])}
        case "timestamp":
            parsed = timestamps.parse_timestamp(recorded["v"])
            return {"t": "timestamp", "v": timestamps.format_timestamp(Timestamp(parsed.ns)) if parsed else None}
    return recorded


def _nano(text: str) -> int:
    """The value of a recorded quantity; parsing would cap large binary ones, which only sums can reach."""
    if binary := re.fullmatch(r"(-?[0-9]+)([KMGTPE])i", text):
        return int(binary[1]) * int(1024 ** ("KMGTPE".index(binary[2]) + 1)) * 10**9
    return Quantity.parse(text).nano


def untyped(recorded: Any) -> Value:
    """Convert a value from the notation of the recordings."""
    v = recorded.get("v")
    match recorded["t"]:
        case "null":
            return None
        case "uint":
            return Uint(v)
        case "double":
            return float(v)
        case "bytes":
            return base64.b64decode(v)
        case "list":
            return ListValue([untyped(item) for item in v])
        case "map":
            return MapValue({map_key(untyped(k)): (untyped(k), untyped(item)) for k, item in v})
        case "duration":
            return Duration(recorded["ns"])
        case "timestamp":
            return timestamps.parse_timestamp(v)
        case "type":
            return TypeValue(v)
        case "optional":
            return Optional(ABSENT if v is None else untyped(v))
    return v


# --- comparing ---------------------------------------------------------------------------------------------------

_SYNTAX = re.compile(r"(?:compilation failed: )?ERROR: <input>:(-?\d+):(-?\d+): Syntax error:")


def _differs_compile(wanted: str | None, found: str | None) -> list[str]:
    if wanted is not None and found is not None:
        a, b = _SYNTAX.match(wanted), _SYNTAX.match(found)
        if a and b and a.groups() == b.groups():
            return []
    return _differs("compile error", wanted, found)


def _environment(case: Case) -> Environment:
    return declare_environment(
        case["version"], case["env"], bool(case["consumableCapacity"]), bool(case["listTypeAttributes"])
    )


def _recorded(case: Case, expect: Case) -> list[str]:
    if case["mode"] == "api":
        return _api(case, expect)
    match_mode = case["mode"] == "match"
    env = _environment(case)
    estimated: tuple[int, int] | None = None
    try:
        checked = compile_checked(case["expression"], env)
        if match_mode:
            require_bool(checked)
        else:
            estimated = estimate(checked)
        planned = plan_checked(checked)
    except CompileError as error:
        if "upstreamPanics" in expect:
            return []
        problems = _differs_compile(expect.get("compileError"), str(error))
        if "compileErrorType" in expect:
            kind = {"invalid": "RuleInvalid", "required": "RuleRequired", "internal": "InternalError"}[error.kind]
            problems += _differs("compile error type", expect["compileErrorType"], kind)
        return problems
    if "upstreamPanics" in expect or "compileError" in expect:
        return [f"compiled; expected {expect.get('compileError', 'any compile error')!r}"]
    problems = _differs("output type", expect["outputType"], str(checked.output_type))
    estimated = estimated or estimate(checked)
    problems += _differs("estimated cost", expect["estimatedCost"], estimated[1])
    if "estimatedCostMin" in expect:
        problems += _differs("estimated minimum", expect["estimatedCostMin"], estimated[0])
    bound = device_of(case["device"]).variable(env.list_attributes)
    limit = expect.get("costLimit", case.get("costLimit", COST_LIMIT))
    return problems + _outcome(expect, _evaluate(checked, planned, bound, limit, match_mode), match_mode)


def _evaluate(
    checked: CheckedExpression, planned: Any, bound: DeviceVariable, limit: int, match_mode: bool
) -> Evaluation:
    if match_mode and bound.error is not None:
        return Evaluation(None, EvaluationError(bound.error), None)
    found = run_plan(checked, planned, bound, (), limit)
    if match_mode:
        if found.error is None:
            try:
                found.value = as_bool(found.value)
            except EvaluationError as error:
                found.error = error
    return found


def _outcome(expect: Case, found: Evaluation, match_mode: bool) -> list[str]:
    wanted_error = expect.get("matchError") if match_mode else expect.get("error")
    problems = _differs("error", wanted_error, None if found.error is None else str(found.error))
    if not problems and wanted_error is None:
        if match_mode:
            problems += _differs("match", expect["match"], found.value)
        else:
            problems += _differs("value", _normal(expect["value"]), typed(found.value))
    if not expect.get("actualCostVaries") and found.cost is not None:
        problems += _differs("actual cost", expect.get("actualCost"), found.cost)
    return problems


def _api(case: Case, expect: Case) -> list[str]:
    features = Features(
        kube=case["version"],
        gates={
            "DRAConsumableCapacity": bool(case["consumableCapacity"]),
            "DRAListTypeAttributes": bool(case["listTypeAttributes"]),
        },
    )
    chosen = DeviceSelector(cel=CELDeviceSelector(expression=case["expression"]))
    given = DeviceClass(metadata=ObjectMeta(name="test"), spec=DeviceClassSpec(selectors=(chosen,)))
    found = device_class(given, validation_context(features))
    return _differs(
        "errors", [_syntax_position(e["text"]) for e in expect["apiErrors"]], [_syntax_position(str(e)) for e in found]
    )


def _syntax_position(text: str) -> str:
    """The compared parts of a syntax error."""
    found = re.search(r"ERROR: <input>:-?\d+:-?\d+: Syntax error:", text)
    return text if found is None else text[: found.end()]


def _table(case: Case) -> list[str]:
    expect: dict[str, Any] = {
        "outputType": case["outputType"],
        "estimatedCost": case["estimatedCost"],
        "actualCost": case["actualCost"],
        "match": case["expectMatch"],
    }
    if case["expectCompileError"] is not None:
        expect["compileError"] = case["expectCompileError"]
    if case["expectMatchError"] is not None:
        expect["matchError"] = case["expectMatchError"]
    return _recorded({**case, "mode": "match", "device": case}, expect)


# --- conformance of the language ---------------------------------------------------------------------------------

_TYPES: dict[str, cel_types.Type] = {
    "bool": cel_types.BOOL, "int": cel_types.INT, "uint": cel_types.UINT, "double": cel_types.DOUBLE,
    "string": cel_types.STRING, "bytes": cel_types.BYTES, "dyn": cel_types.DYN, "null_type": cel_types.NULL,
    "null": cel_types.NULL, "type": cel_types.TYPE, "timestamp": cel_types.TIMESTAMP,
    "duration": cel_types.DURATION, "google.protobuf.Timestamp": cel_types.TIMESTAMP,
    "google.protobuf.Duration": cel_types.DURATION, "any": cel_types.ANY, "google.protobuf.Any": cel_types.ANY,
    "net.IP": cel_types.IP, "net.CIDR": cel_types.CIDR,
}  # fmt: skip


def _type(described: Any) -> cel_types.Type:
    if isinstance(described, str):
        return _TYPES[described]
    match described:
        case {"list": element}:
            return cel_types.list_of(_type(element))
        case {"map": [key, value]}:
            return cel_types.map_of(_type(key), _type(value))
        case {"opaque": name}:
            return cel_types.opaque(name, *(_type(p) for p in described.get("params", ())))
        case {"type": t}:
            return cel_types.type_of(_type(t))
        case {"param": name}:
            return cel_types.param(name)
        case {"wrapper": t}:
            return cel_types.wrapper(_type(t))
    raise ValueError(f"type {described!r}")


def _declared(functions: Sequence[Case]) -> list[tuple[str, Overload]]:
    return [
        (f["name"], overload(o["id"], [_type(p) for p in o["params"]], _type(o["result"]), bool(o.get("member"))))
        for f in functions
        for o in f["overloads"]
    ]


def _conformance(case: Case) -> list[str]:
    expect = case["dra"]
    names = list(case["bindings"])
    # An unbound name is declared as well, unless the grammar reserves it.
    variables = {name: _type(t) for name, t in case["type_env"].items()}
    base = declare_environment("1.36", "stored", True, True)
    env = base.extended(variables, _declared(case.get("function_decls", ())), case.get("container", ""))
    try:
        if case.get("disable_check"):
            parsed = parse(case["expr"], env.macros)
            checked = CheckedExpression(parsed.expr, parsed, env, {}, {}, {}, cel_types.DYN)
        else:
            checked = compile_checked(case["expr"], env)
        planned = plan_checked(checked, names)
    except CompileError as error:
        text = str(error).removeprefix("compilation failed: ")
        if text.startswith("program instantiation failed: "):
            problem = text.removeprefix("program instantiation failed: ")
            return _differs("program error", expect.get("programError"), problem)
        return _differs_compile(expect.get("compileError"), text)
    if "compileError" in expect or "programError" in expect:
        return [f"compiled; expected {expect.get('compileError', expect.get('programError'))!r}"]
    problems = _differs("output type", expect["outputType"], str(checked.output_type))
    values = [untyped(case["bindings"][name]) for name in names]
    device = DeviceVariable("", Device(), True)
    found = run_plan(checked, planned, device, values, COST_LIMIT)
    if case["name"] in _ORDER_OF_A_MAP:
        expect = {**expect, "actualCostVaries": True}
    return problems + _outcome(_without_node_ids(expect), _without_node_ids_found(found), False)


#: Costs that depend on the order in which upstream iterated over a map.
_ORDER_OF_A_MAP = frozenset({"map_key", "error"})
_NODE_ID = re.compile(r"^(no such overload: \w+) \d+$")


def _without_node_ids(expect: Case) -> Case:
    """The error for a missing function of three arguments contains upstream's internal number of the call."""
    return {**expect, "error": _NODE_ID.sub(r"\1", expect["error"])} if "error" in expect else expect


def _without_node_ids_found(found: Evaluation) -> Evaluation:
    if found.error is not None:
        found.error = EvaluationError(_NODE_ID.sub(r"\1", str(found.error)))
    return found
