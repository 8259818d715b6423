"""CustomResourceDefinitions with rules, of which kube-apiserver refuses those that are wrong or too expensive."""

from __future__ import annotations

from typing import Any, Final

from allotment.model.trees import Tree

DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_RULES: Final = "x-kubernetes-validations"
_STRING: Final = {"type": "string"}
_INTEGER: Final = {"type": "integer"}


def definition(plural: str, spec: Tree) -> Tree:
    """A definition with a schema of its field ``spec``."""
    schema = {"type": "object", "properties": {"spec": {"type": "object", **spec}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {
        "plural": plural,
        "singular": plural,
        "kind": plural.capitalize(),
        "listKind": f"{plural.capitalize()}List",
    }
    return {
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]},
    }  # fmt: skip


def _ruled(rule: str, schema: Tree | None = None, **more: Any) -> Tree:
    """A schema with a rule; ``more``: other fields of the rule."""
    return {**(schema or {}), _RULES: [{"rule": rule, **more}]}


def _fields(rule: str = "", /, **properties: Tree) -> Tree:
    """A schema of an object, with a rule if there is one."""
    schema: Tree = {"type": "object", "properties": properties}
    return _ruled(rule, schema) if rule else schema


def _list(items: Tree, **limits: Any) -> Tree:
    return {"type": "array", "items": items, **limits}


def _map(values: Tree, **limits: Any) -> Tree:
    return {"type": "object", "additionalProperties": values, **limits}


_NAMED: Final = _fields("self.name.matches('a+')", name=_STRING)
_PAIRS: Final = "self.a.all(x, self.a.all(y, x == y || x != 'b'))"
_PART: Final = _fields(name=_STRING, n=_INTEGER)
_IDENTITY: Final = {"x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}
_BY_NAME: Final = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}

#: The schema of ``spec`` by plural.
RULE_CASES: Final[dict[str, Tree]] = {
    "pairs": _fields(_PAIRS, a=_list(_STRING)),
    "limitedpairs": _fields(_PAIRS, a=_list({**_STRING, "maxLength": 8}, maxItems=20)),
    "scalars": _fields("self.a.matches('a+') && self.b > 1", a=_STRING, b=_INTEGER),
    "items": _fields(a=_list(_NAMED)),
    "limiteditems": _fields(a=_list(_NAMED, maxItems=100)),
    "values": _fields(m=_map(_fields("self.x > 1", x=_INTEGER))),
    "limitedvalues": _fields(m=_map(_NAMED, maxProperties=10)),
    "keys": _fields("self.m.all(k, self.m[k].startsWith('a') && k.matches('a'))", m=_map(_STRING)),
    "unique": _fields("self.a.all(x, self.a.exists_one(y, y.name == x.name))", a=_list(_PART, maxItems=1000)),
    "join": _fields("self.a.join(',').size() < 10", a=_list(_STRING)),
    "sums": _fields("self.a.sum() < 10 && self.a.isSorted() && self.a.max() < 3", a=_list(_INTEGER)),
    "sets": _fields("self.a.exists(x, x in self.b)", a=_list(_STRING), b=_list(_STRING)),
    "either": _fields("type(self.p) == int || string(self.p).contains('%')", p={"x-kubernetes-int-or-string": True}),
    "enums": _fields("self.a.all(x, x.contains('a'))", a=_list({**_STRING, "enum": ["abc", "de"]})),
    "formats": _fields(
        "self.d.all(x, x < duration('1h')) && self.t.all(x, x < timestamp('2020-01-01T00:00:00Z')) && "
        "self.b.all(x, x == b'a')",
        d=_list({**_STRING, "format": "duration"}), t=_list({**_STRING, "format": "date-time"}),
        b=_list({**_STRING, "format": "byte"}),
    ),
    "messages": _ruled("self.a.size() < 5", _fields(a=_list(_STRING)), messageExpression="self.a.join(',')"),
    "required": _fields(a=_list({**_fields("self.n > 0", n=_INTEGER, name=_STRING), "required": ["n", "name"]})),
    "olditems": _fields(a=_list(_ruled("self == oldSelf", _STRING), maxItems=3)),
    "oldatomic": _fields(o={**_fields(s=_ruled("self == oldSelf", _STRING)), "x-kubernetes-map-type": "atomic"}),
    "oldmaps": _fields(a=_list({**_fields("self.n == oldSelf.n", name=_STRING, n=_INTEGER), "required": ["name"]},
                               **_BY_NAME)),
    "optional": _fields(s=_ruled("self.size() < 3", _STRING, optionalOldSelf=True)),
    "optionalold": _fields(s=_ruled("oldSelf.orValue('') == self", _STRING, optionalOldSelf=True)),
    "badfields": _fields(s=_ruled("self.size() <\n 3", _STRING, reason="Bad", fieldPath=" ")),
    "emptyfields": _fields(s=_ruled("self.size() < 3", _STRING, message=" ", messageExpression=" ")),
    "linebreaks": _fields(s=_ruled("self.size() < 3", _STRING, message="a\nb", fieldPath=".a\n")),
    "paths": {
        **_fields(**{"a": _STRING, "b.c": _STRING}),
        _RULES: [{"rule": "self.a == 'x'", "fieldPath": path} for path in (".a", "['b.c']", ".d", "a", "['a'", ".a.b")],
    },
    "pathsofmaps": _ruled("self.m.size() < 3", _fields(m=_map(_PART)), fieldPath=".m['a.b'].name"),
    "pairsofvalues": _fields("self.a.all(i, v, i < 3 && v.startsWith('a'))", a=_list(_STRING)),
    "transformed": _fields("self.m.transformList(k, v, k + v).all(x, x.contains('abc'))", m=_map(_STRING)),
    "addresses": _fields("self.a.all(x, isIP(x) && ip(x).family() == 4 || isURL(x))", a=_list(_STRING)),
    "quantities": _fields("self.a.all(x, quantity(x).isLessThan(quantity('1')))", a=_list(_STRING)),
    "found": _fields("self.s.findAll('a+').size() < 3 && self.s.replace('a', 'bbb').contains('abb')", s=_STRING),
    "filtered": _fields("self.a.filter(x, x.n > 3).map(x, x.name).all(n, n.startsWith('z'))", a=_list(_PART)),
    "sorted": _fields("self.a.map(x, x.name).isSorted() && self.a.sortBy(x, x.n)[0].n == 1", a=_list(_PART)),
    "concatenated": _fields("self.a + self.b == self.a", a=_list(_STRING), b=_list(_STRING)),
    "many": _fields(**{
        f"a{index}": _list(_ruled("self.matches('a+b')", {**_STRING, "maxLength": 4000}), maxItems=6000 - 50 * index)
        for index in range(12)
    }),
    "wrong": _fields(s=_ruled("self.foo < 3", _STRING, messageExpression="1")),
    "bindings": _fields("cel.bind(z, self.a, z.size() < 3)", a=_list(_STRING)),
    "embedded": _fields(e=_ruled("self.metadata.name.matches('a+') && self.kind.matches('b+')",
                                 {**_fields(), **_IDENTITY})),
    "manyembedded": _fields(e=_list(_ruled("self.metadata.name.matches('a+')", {**_fields(), **_IDENTITY}))),
    "semvers": _fields("self.a.all(x, isSemver(x) && semver(x).isLessThan(semver('1.0.0')))", a=_list(_STRING)),
}  # fmt: skip
