"""Claims around an expression, and what a rule says of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from allotment.model.editing.tree_edits import edited
from allotment.tools.check.bundle import Bundle, CheckSettings
from allotment.tools.check.rule import Rule, RuleMatch
from tests.unit.tools.check.bundles import bundle_of

NVIDIA = 'device.attributes["gpu.nvidia.com"]'


def claim(expression: str, *, class_name: str = "gpu.nvidia.com", devices_extra: str = "") -> str:
    """A claim for one device that fits an expression; ``more`` is YAML below ``devices``."""
    text = f"""\
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata:
  name: gpu
spec:
  devices:
    requests:
    - name: gpu
      exactly:
        deviceClassName: {class_name}
"""
    if expression:
        text += f"        selectors:\n        - cel:\n            expression: {json.dumps(expression)}\n"
    return text + devices_extra


def bundle(
    text: str,
    *,
    drivers: Mapping[str, str] | None = None,
    driver_gates: Mapping[str, Mapping[str, bool]] | None = None,
    **world: Any,
) -> Bundle:
    """A bundle for these releases and gates of drivers."""
    made = bundle_of(text, **world)
    return Bundle(made.documents, CheckSettings(made.features, drivers or {}, driver_gates or {}), made.cluster)


def matches_of(rule: Rule, text: str, **settings: Any) -> list[RuleMatch]:
    """What a rule finds."""
    return list(rule.find(bundle(text, **settings)))


def levels_and_messages(rule: Rule, text: str, **settings: Any) -> list[tuple[str, str]]:
    """Level and message of what a rule finds."""
    return [(one.level or rule.level, one.message) for one in matches_of(rule, text, **settings)]


def selector_messages(
    rule: Rule, expression: str, *, class_name: str = "gpu.nvidia.com", **settings: Any
) -> list[tuple[str, str]]:
    """Level and message of what a rule finds in the selector of a claim."""
    return levels_and_messages(rule, claim(expression, class_name=class_name), **settings)


def fixed_document(rule: Rule, text: str, **settings: Any) -> dict[str, Any]:
    """The first document once the first fix of a rule is done; as it was where there is none."""
    documents = bundle(text, **settings).documents
    fixes = [one.fix for one in matches_of(rule, text, **settings) if one.fix is not None]
    edits = [edit for document, edit in fixes[0].edits if document.index == 0] if fixes else []
    tree: dict[str, Any] = edited(documents[0].tree, edits)
    return tree


def fixed_expressions(rule: Rule, expression: str, *, class_name: str = "gpu.nvidia.com", **settings: Any) -> list[str]:
    """The request's expressions once the first fix of a rule is done."""
    tree = fixed_document(rule, claim(expression, class_name=class_name), **settings)
    request = tree["spec"]["devices"]["requests"][0]["exactly"]
    return [one["cel"]["expression"] for one in request.get("selectors", ())]
