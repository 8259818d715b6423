"""Runs a rule on a claim with a selector, and applies its fixes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from allotment.model.editing.tree_edits import apply_edits
from allotment.tools.check.bundle import Bundle, CheckSettings
from allotment.tools.check.rule import Rule, RuleMatch
from tests.unit.tools.check.bundles import bundle_of

NVIDIA = 'device.attributes["gpu.nvidia.com"]'


def claim(expression: str, *, class_name: str = "gpu.nvidia.com", devices_extra: str = "") -> str:
    """A claim for one device with a selector; ``devices_extra`` is YAML below ``devices``."""
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
    **cluster: Any,
) -> Bundle:
    """A bundle for these releases and feature gates of drivers."""
    plain_bundle = bundle_of(text, **cluster)
    return Bundle(
        plain_bundle.documents,
        CheckSettings(plain_bundle.features, drivers or {}, driver_gates or {}),
        plain_bundle.cluster,
    )


def matches_of(rule: Rule, text: str, **settings: Any) -> list[RuleMatch]:
    """The matches of a rule."""
    return list(rule.find(bundle(text, **settings)))


def levels_and_messages(rule: Rule, text: str, **settings: Any) -> list[tuple[str, str]]:
    """Level and message of each match."""
    return [(match.level or rule.level, match.message) for match in matches_of(rule, text, **settings)]


def selector_messages(
    rule: Rule, expression: str, *, class_name: str = "gpu.nvidia.com", **settings: Any
) -> list[tuple[str, str]]:
    """Level and message of each match in the selector of a claim."""
    return levels_and_messages(rule, claim(expression, class_name=class_name), **settings)


def fixed_document(rule: Rule, text: str, **settings: Any) -> dict[str, Any]:
    """The first document after the first fix of a rule; unchanged if there is no fix."""
    documents = bundle(text, **settings).documents
    fixes = [match.fix for match in matches_of(rule, text, **settings) if match.fix is not None]
    edits = [edit for document, edit in fixes[0].edits if document.index == 0] if fixes else []
    tree: dict[str, Any] = apply_edits(documents[0].tree, edits)
    return tree


def fixed_expressions(rule: Rule, expression: str, *, class_name: str = "gpu.nvidia.com", **settings: Any) -> list[str]:
    """The request's expressions after the first fix of a rule."""
    tree = fixed_document(rule, claim(expression, class_name=class_name), **settings)
    request = tree["spec"]["devices"]["requests"][0]["exactly"]
    return [selector["cel"]["expression"] for selector in request.get("selectors", ())]
