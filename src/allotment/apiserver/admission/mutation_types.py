"""The types of objects and JSON patches that the expressions of MutatingAdmissionPolicies create.

``Object`` and ``Object.spec.template`` are types whose fields are named by the path, all of type ``dyn``: an expression
declares the types that it uses by naming them.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Final

from allotment.cel.checking import types
from allotment.cel.checking.declarations import parse_table
from allotment.cel.checking.environment import Environment
from allotment.cel.checking.types import Type

OBJECT: Final = types.struct("Object")
PATCHES: Final = types.list_of(types.struct("JSONPatch"))
_PATCH_FIELDS: Final = {"op": types.STRING, "from": types.STRING, "path": types.STRING, "value": types.DYN}
_FUNCTIONS: Final = "jsonpatch.escapeKey string_jsonpatch_escapeKey_string (string) string"
_NAMES: Final = re.compile(r"\bObject(?:\.[A-Za-z_][A-Za-z0-9_]*)*")


class _AnyFields(dict[str, Type]):
    """The fields of an object: any name, of type dyn."""

    def get(self, name: str, default: Any = None) -> Type:
        return types.DYN


def with_mutation_types(env: Environment, source: str) -> Environment:
    """An environment with the types that an expression names, and the functions for JSON patches."""
    names = {OBJECT.name, *_NAMES.findall(source)}
    extended = env.extended({}, parse_table(_FUNCTIONS))
    declared = {name: types.struct(name) for name in (*names, "JSONPatch")}
    fields = {name: _AnyFields() for name in names}
    return replace(
        extended,
        type_names={**extended.type_names, **declared},
        structs={**extended.structs, **fields, "JSONPatch": _PATCH_FIELDS},
        dotted_roots=extended.dotted_roots | {OBJECT.name},
    )
