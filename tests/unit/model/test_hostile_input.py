"""Property tests of loading and decoding: any input results in objects and problems, not in exceptions."""

from __future__ import annotations

import json
import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from allotment.model.decoding import decode_all
from allotment.model.loading import load_text

VERSIONS = ["v1", "apps/v1", "resource.k8s.io/v1", "resource.k8s.io/v1beta1", "resource.k8s.io/v1alpha3", "x.io/v1"]
KINDS = ["Pod", "Deployment", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice", "DeviceClass", "List", "Thing"]
FIELDS = ["metadata", "spec", "status", "name", "namespace", "devices", "requests", "exactly", "firstAvailable",
          "basic", "attributes", "capacity", "selectors", "cel", "expression", "count", "items", "template",
          "containers", "resources", "claims", "resourceClaims", "value", "labels", "creationTimestamp", "nodeSelector",
          "data", "parameters", "opaque", "config", "deviceClassName", "int", "pool", "taints", "<<", "",
          "é"]  # fmt: skip

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "a", "40Gi", "1.5x", "2020-01-01T00:00:00Z", "yes", "0", "\u2028", "x" * 300])
)
values: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4),
    max_leaves=25,
)
objects = st.fixed_dictionaries(
    {"apiVersion": st.sampled_from(VERSIONS) | scalars, "kind": st.sampled_from(KINDS) | scalars},
    optional={"metadata": values, "spec": values, "status": values, "items": st.lists(values, max_size=3)},
)

SEED = """\
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: &m {name: "a", labels: {x: 'y'}}
spec:
  driver: gpu.example.com
  pool: {name: n, generation: 1, resourceSliceCount: 1}
  nodeName: n # comment
  devices:
  - name: gpu-0
    attributes: {model: {string: >-
      A100}, n: {int: 010}, v: {version: 1.2.3}}
    capacity: &c
      memory: {value: 40Gi}
---
{"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p"}, "spec": {"nodeName": "\\u00e9"}}
"""
BITS = ["\0", "\t", "\n", "---\n", "&a ", "*a", "<<: *m", "{", "}", "[", "]", '"', "'", ": ", "- ", "? ", "!!int ",
        "|\n", "%YAML 1.1\n", "...\n", "\ufeff", "\x85", "null", "yes", "1e999", ".nan", "#", "\\", "é", "\U0001f600",
        ","]  # fmt: skip


def check_load(text: str | bytes) -> None:
    loaded = load_text(text, "t.yaml")
    decoded = decode_all(loaded.documents)
    assert len(decoded.manifests) + len({problem.position for problem in decoded.problems}) >= min(
        len(loaded.documents), 1
    )
    for problem in (*loaded.problems, *decoded.problems):
        assert problem.message
        assert problem.position.line >= 1
        assert problem.position.column >= 1
        assert "Traceback" not in str(problem)
    for document in loaded.documents:
        document.position(("spec", "devices", 0, "basic"))


@given(objects, st.booleans())
def test_any_tree_is_loaded(tree: dict[str, Any], indented: bool) -> None:
    check_load(json.dumps(tree, indent=1 if indented else None))


@settings(max_examples=200)
@given(st.randoms(use_true_random=False), st.integers(1, 6))
def test_any_mutation_of_valid_yaml_is_loaded(rng: random.Random, count: int) -> None:
    text = SEED
    for _ in range(count):
        start = rng.randrange(len(text) + 1)
        end = min(len(text), start + rng.choice([0, 0, 1, 2, 10, 60]))
        text = text[:start] + rng.choice([*BITS, text[end : end + 40]]) + text[end:]
    check_load(text)


@given(st.binary(max_size=60) | st.text(max_size=60))
def test_any_bytes_or_text_is_loaded(text: bytes | str) -> None:
    check_load(text)
