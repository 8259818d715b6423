"""Runs a rule on texts and applies its fixes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from allotment.model.editing.edits import Edit
from allotment.model.editing.tree_edits import apply_edits
from allotment.model.loading import Document
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.rule import Rule, RuleMatch
from tests.unit.tools.check.bundles import bundle_of


def matches_of(rule: Rule, files: str | Mapping[str, str], **settings: Any) -> list[RuleMatch]:
    """The matches of a rule; ``settings`` are those of ``bundle_of``."""
    return list(rule.find(bundle_of(files, **settings)))


def levels_and_messages(rule: Rule, files: str | Mapping[str, str], **settings: Any) -> list[tuple[str, str]]:
    """Level and message of each match."""
    return [(match.level or rule.level, match.message) for match in matches_of(rule, files, **settings)]


def fixed_documents(rule: Rule, files: str | Mapping[str, str], **settings: Any) -> list[dict[str, Any]]:
    """The documents after all fixes of a rule."""
    bundle = bundle_of(files, **settings)
    return apply_fixes(bundle, list(rule.find(bundle)))


def apply_fixes(bundle: Bundle, findings: list[RuleMatch]) -> list[dict[str, Any]]:
    """The documents of a bundle after the fixes of these matches."""
    edits: dict[Document, list[Edit]] = {}
    for match in findings:
        for document, edit in match.fix.edits if match.fix else ():
            edits.setdefault(document, []).append(edit)
    return [apply_edits(document.tree, edits.get(document, [])) for document in bundle.documents]


def claim(requests: str, *, version: str = "v1", devices_extra: str = "") -> str:
    """A ResourceClaim with these items of ``requests``; ``devices_extra`` are further lines of ``devices``."""
    lines = [f"    {line}\n" for line in requests.strip("\n").split("\n")]
    return (
        f"apiVersion: resource.k8s.io/{version}\nkind: ResourceClaim\nmetadata:\n  name: gpu\nspec:\n  devices:\n"
        f"    requests:\n{''.join(lines)}{devices_extra}"
    )


def devices_of(tree: dict[str, Any]) -> dict[str, Any]:
    """``spec.devices`` of a claim."""
    devices: dict[str, Any] = tree["spec"]["devices"]
    return devices
