"""Findings as SARIF 2.1.0, for code hosts and editors.

Specification: https://docs.oasis-open.org/sarif/sarif/v2.1.0/. The fingerprint of a finding depends on rule, file,
object and field, so that it stays the same when lines move.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from allotment import __version__
from allotment.errors import InputError, InvalidManifests
from allotment.model.problems import WHOLE_FILE, InputProblem
from allotment.tools.check.catalog import all_rules
from allotment.tools.check.finding import Finding, SourceRange
from allotment.tools.check.reference import markdown
from allotment.tools.check.replacements import Replacement, replacements
from allotment.tools.check.rule import Rule

_SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_FINGERPRINT: Final = "allotment/v1"


def log(findings: Sequence[Finding], sources: Mapping[str, str]) -> dict[str, Any]:
    """Return a SARIF log with one run; ``sources`` are the checked texts, by file."""
    rules = all_rules()
    places = {rule.code: number for number, rule in enumerate(rules)}
    return _log(rules, {"executionSuccessful": True}, results=_results(findings, sources, places))


def failure_log(error: InputError, message: str) -> dict[str, Any]:
    """Return the SARIF log of a check that an error stopped; its notifications are the reasons.

    ``message``: the reason if the error is an argument. It has no results: an empty list means that none were found.
    """
    if isinstance(error, InvalidManifests):
        reasons = {"toolExecutionNotifications": [_notification(problem) for problem in error.problems]}
    else:
        reasons = {"toolConfigurationNotifications": [{"level": "error", "message": {"text": message}}]}
    return _log(all_rules(), {"executionSuccessful": False, **reasons})


def _log(rules: Sequence[Rule], invocation: dict[str, Any], **results: list[dict[str, Any]]) -> dict[str, Any]:
    driver = {"name": "allot check", "version": __version__, "rules": [_rule(rule) for rule in rules]}
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "invocations": [invocation], **results}
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _notification(problem: InputProblem) -> dict[str, Any]:
    position = problem.position
    place: dict[str, Any] = {"artifactLocation": _artifact(position.file)}
    if problem.code not in WHOLE_FILE:
        place["region"] = {"startLine": position.line, "startColumn": position.column}
    return {
        "descriptor": {"id": problem.code},
        "level": "error",
        "message": {"text": "\n".join(filter(None, (problem.message, problem.hint)))},
        "locations": [{"physicalLocation": place}],
    }


def _rule(rule: Rule) -> dict[str, Any]:
    described = {
        "id": rule.code,
        "name": _pascal(rule.name),
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": rule.why},
        "help": {"text": f"{rule.summary}\n\n{rule.why}", "markdown": markdown(rule)},
        "defaultConfiguration": {"level": rule.level},
        "properties": {"tags": [rule.family], "problem.severity": _severity(rule)},
    }
    return {**described, **({"helpUri": rule.see} if rule.see.startswith("https://") else {})}


def _severity(rule: Rule) -> str:
    return "recommendation" if rule.level == "note" else rule.level


def _pascal(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("-"))


def _results(findings: Sequence[Finding], sources: Mapping[str, str], places: dict[str, int]) -> list[dict[str, Any]]:
    seen: Counter[tuple[str, ...]] = Counter()
    results = []
    for finding in findings:
        identity = (finding.code, finding.where.file, finding.subject, finding.path)
        results.append(_result(finding, sources, places, _fingerprint(identity, seen[identity])))
        seen[identity] += 1
    return results


def _result(finding: Finding, sources: Mapping[str, str], places: dict[str, int], fingerprint: str) -> dict[str, Any]:
    words = f"{finding.message}\n{finding.help}" if finding.help else finding.message
    location: dict[str, Any] = {"physicalLocation": _physical(finding.where)}
    if finding.path:
        location["logicalLocations"] = [{"fullyQualifiedName": finding.path, "kind": "member"}]
    result = {
        "ruleId": finding.code,
        **({"ruleIndex": places[finding.code]} if finding.code in places else {}),
        "level": finding.level,
        "message": {"text": words},
        "locations": [location],
        "partialFingerprints": {_FINGERPRINT: fingerprint},
    }
    if finding.fix is not None and (changes := replacements(finding.fix, sources)):
        words = finding.fix.text if finding.fix.safe else f"{finding.fix.text} (unsafe: it guesses the intent)"
        result["fixes"] = [{"description": {"text": words}, "artifactChanges": _changes(changes)}]
    return result


def _fingerprint(identity: Sequence[str], number: int) -> str:
    return hashlib.sha256("\0".join((*identity, str(number))).encode()).hexdigest()[:32]


def _physical(where: SourceRange) -> dict[str, Any]:
    return {"artifactLocation": _artifact(where.file), "region": _region(where)}


def _artifact(file: str) -> dict[str, str]:
    path = quote(file.replace("\\", "/"))
    # A relative URI is relative to the repository; readers find the repository in an absolute one.
    return {"uri": f"file://{path}" if path.startswith("/") else path}


def _region(where: SourceRange) -> dict[str, int]:
    region = {"startLine": where.line, "startColumn": where.column}
    if (where.end_line, where.end_column) > (where.line, where.column):
        region |= {"endLine": where.end_line, "endColumn": where.end_column}
    return region


def _changes(changes: Sequence[Replacement]) -> list[dict[str, Any]]:
    by_file: dict[str, list[dict[str, Any]]] = {}
    for where, text in changes:
        region = {
            "startLine": where.line, "startColumn": where.column,
            "endLine": where.end_line, "endColumn": where.end_column,
        }  # fmt: skip
        by_file.setdefault(where.file, []).append({"deletedRegion": region, "insertedContent": {"text": text}})
    return [{"artifactLocation": _artifact(file), "replacements": listed} for file, listed in by_file.items()]
