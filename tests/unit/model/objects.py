"""Random objects of any kind, as trees that decode: not always valid, but always representable in protobuf."""

from __future__ import annotations

from random import Random
from typing import Any

from allotment.model.fields import TypeShape, kinds_of, shape_of
from allotment.model.normal_form import normalize

#: API versions of stored objects, without those of requests such as reviews.
VERSIONS = (
    "v1", "apps/v1", "batch/v1", "autoscaling/v1", "autoscaling/v2", "rbac.authorization.k8s.io/v1", "policy/v1",
    "networking.k8s.io/v1", "scheduling.k8s.io/v1", "scheduling.k8s.io/v1alpha2", "storage.k8s.io/v1",
    "coordination.k8s.io/v1", "discovery.k8s.io/v1", "events.k8s.io/v1", "node.k8s.io/v1", "resource.k8s.io/v1",
    "admissionregistration.k8s.io/v1", "resource.k8s.io/v1beta1", "resource.k8s.io/v1beta2", "authentication.k8s.io/v1",
    "authorization.k8s.io/v1", "apiextensions.k8s.io/v1", "certificates.k8s.io/v1",
)  # fmt: skip
KINDS = [(version, kind) for version in VERSIONS for kind in sorted(kinds_of(version))]

_WORDS = ("", "a", "A b", "a/b", "ü", "\N{GRINNING FACE}", "x" * 200)
_CHOICES: dict[str, tuple[Any, ...]] = {
    "string": _WORDS,
    "bool": (True, False),
    "int32": (0, 1, -1, 300, 2**31 - 1, -(2**31)),
    "int64": (0, 1, -1, 127, 128, 2**63 - 1, -(2**63)),
    "float64": (0.0, 0.5, -2.25),
    "bytes": ("", "AA==", "aGVsbG8=", "/" * 400),
    "Quantity": ("0", "1", "-1", "1Gi", "1500m"),
    "Time": ("2026-11-21T03:13:57Z", "1969-12-31T23:59:59Z", "9999-12-31T23:59:59Z"),
    "MicroTime": ("2026-11-21T03:13:57.123456Z", "1969-12-31T23:59:59.000001Z"),
    "IntOrString": (0, 80, -1, "http", ""),
    "RawExtension": ({}, {"a": [1, None, "x"]}),
    "FieldsV1": ({}, {"f:a": {".": {}}}),
    "JSON": ({}, [], "x", 1, False),
}
_MAX_DEPTH = 12


def random_value(shape: TypeShape, rng: Random, depth: int = 0) -> Any:
    """A random value of a type."""
    form = shape.form
    if form == "struct":
        density = rng.random() * (1.2 if depth < 3 else 0.6)
        tree = {
            name: random_value(field.shape, rng, depth + 1)
            for name, field in shape.fields.items()
            if field.embedded != "TypeMeta"
            and rng.random() < density
            and (depth < _MAX_DEPTH or not field.shape.element)
        }
        return normalize(tree, shape) if shape.bare_name == "ManagedFieldsEntry" else tree
    if form == "slice":
        assert shape.element is not None
        return [random_value(shape.element, rng, depth + 1) for _ in range(rng.choice((0, 1, 1, 2)))]
    if form == "map":
        assert shape.element is not None
        return {key: random_value(shape.element, rng, depth + 1) for key in rng.sample(_WORDS, rng.choice((0, 1, 3)))}
    if shape.element is None:
        return rng.choice(_CHOICES[form])
    if form == "JSONSchemaPropsOrBool" and rng.random() < 0.5:
        return rng.choice((True, False))
    if form == "JSONSchemaPropsOrStringArray" and rng.random() < 0.5:
        return ["a", ""]
    schema = random_value(shape.element, rng, depth + 1)
    return [schema, {}] if form == "JSONSchemaPropsOrArray" and rng.random() < 0.5 else schema


def random_object(api_version: str, kind: str, rng: Random) -> dict[str, Any]:
    """A random object of a kind in its normal form."""
    shape = shape_of(api_version, kind)
    assert shape is not None
    tree = {**random_value(shape, rng), "kind": kind, "apiVersion": api_version}
    return normalize(tree, shape)
