"""What may differ between two runs of the same requests, and what has to be learned from it.

Uids, revisions, times and generated endings differ; what a later request says of them has to be said in our terms.
:func:`masked` hides the differences; :class:`Correspondence` remembers which of our values stands for a recorded one.
"""

from __future__ import annotations

import base64
import json
import re
from typing import Any

_UUID = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
_TIME = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)")
_AGE = re.compile(r"(?:\d+[ydhms]){1,2}|<unknown>")
#: The letters of generated endings: no vowels, and no digits that look like letters.
_ENDING = re.compile(r"-[bcdfghjklmnpqrstvwxz2456789]{5,10}\b")
#: Where texts name a revision of the server's own.
_REVISION = re.compile(r'(current: |in record \(|version: \d+ \(|resourceVersion: ")\d+(?![0-9a-f-])')
#: Where a label selector names the hash of a template, and an event's name the moment of its first occurrence.
_HASH = re.compile(r"(pod-template-hash=)[0-9a-z]+")
_MOMENT = re.compile(r"\.1[0-9a-f]{15}\b")
_ADDRESS = re.compile(r"\b10\.96\.\d+\.\d+\b")
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.*", re.DOTALL)
_CEL_SYNTAX = re.compile(r"(ERROR: <input>:\d+:\d+: Syntax error).*", re.DOTALL)
_HIDDEN = {"uid": "UID", "resourceVersion": "REVISION", "continue": "CONTINUE", "token": "TOKEN", "nodePort": 0}
#: Labels whose value is a hash of a template or an object's uid.
_HASHES = ("pod-template-hash", "controller-revision-hash")


def masked(tree: Any) -> Any:
    """The same without what differs from run to run."""
    if isinstance(tree, dict):
        if tree.get("kind") == "Table":
            return _masked_table(tree)
        return {
            _text(key): _HIDDEN[key]
            if key in _HIDDEN and item
            else "HASH"
            if key in _HASHES
            else sorted(masked(item), key=_manager)
            if key == "managedFields" and isinstance(item, list)
            else masked(item)
            for key, item in tree.items()
        }
    if isinstance(tree, list):
        return [masked(item) for item in tree]
    return _text(tree) if isinstance(tree, str) else tree


def _manager(entry: Any) -> tuple[str, ...]:
    """Entries stand in the order of their times, which is another when requests come slower."""
    return tuple(str(entry.get(key)) for key in ("manager", "operation", "subresource", "apiVersion"))


def _text(text: str) -> str:
    text = _CERTIFICATE.sub("CERTIFICATE", _CEL_SYNTAX.sub(r"\1", text))
    text = _MOMENT.sub(".MOMENT", _HASH.sub(r"\1HASH", text))
    text = _REVISION.sub(r"\1REVISION", text)
    return _ADDRESS.sub("ADDRESS", _ENDING.sub("-ENDING", _TIME.sub("TIME", _UUID.sub("UID", text))))


def _masked_table(table: dict[str, Any]) -> dict[str, Any]:
    rest = {key: item for key, item in table.items() if key not in ("kind", "rows", "columnDefinitions")}
    shown = [
        {
            **masked({key: item for key, item in row.items() if key != "cells"}),
            "cells": [
                "AGE" if isinstance(cell, str) and _AGE.fullmatch(cell) else masked(cell) for cell in row["cells"]
            ],
        }
        for row in table.get("rows") or ()
    ]
    definitions = [{"name": c["name"], "priority": c["priority"]} for c in table.get("columnDefinitions") or ()]
    return {"kind": table["kind"], **masked(rest), "columnDefinitions": definitions, "rows": shown}


class Correspondence:
    """Which of our values stands for which recorded one: revisions, uids, continue tokens, tokens, ETags."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self.revisions: dict[int, int] = {}

    def learn(self, recorded: Any, ours: Any) -> None:
        """Note what stands at the same places of two answers."""
        if isinstance(recorded, dict) and isinstance(ours, dict):
            for key, item in recorded.items():
                other = ours.get(key)
                if key == "resourceVersion" and isinstance(item, str) and isinstance(other, str):
                    if item.isdigit() and other.isdigit():
                        self.revisions[int(item)] = int(other)
                elif not isinstance(item, str) or not isinstance(other, str):
                    self.learn(item, other)
                elif key in ("uid", "continue", "token") or (
                    key == "name" and item != other and masked(item) == masked(other)
                ):
                    self.values[item] = other
                elif key == "serverRelativeURL":
                    self.values[item.rpartition("=")[2]] = other.rpartition("=")[2]
        elif isinstance(recorded, list) and isinstance(ours, list):
            for item, other in zip(recorded, ours, strict=False):
                self.learn(item, other)

    def revision(self, recorded: str) -> str:
        """Our revision for a recorded one: the same moment, or the last known before it."""
        if not recorded.isdigit() or not 5 < int(recorded) < 10_000_000:
            return recorded
        known = [number for number in self.revisions if number <= int(recorded)]
        return str(self.revisions[max(known)]) if known else recorded

    def text(self, text: str) -> str:
        """A path or header with our values in place of the recorded ones."""
        for recorded, ours in self.values.items():
            if len(recorded) > 5 and recorded in text:
                text = text.replace(recorded, ours)
        return re.sub(r"(resourceVersion=)(\d+)", lambda found: found.group(1) + self.revision(found.group(2)), text)

    def tree(self, tree: Any) -> Any:
        """A body with our values in place of the recorded ones."""
        if isinstance(tree, dict):
            return {
                key: self.revision(item)
                if key == "resourceVersion" and isinstance(item, str)
                else self.values.get(item, item)
                if key in ("uid", "name") and isinstance(item, str)
                else self.tree(item)
                for key, item in tree.items()
            }
        return [self.tree(item) for item in tree] if isinstance(tree, list) else tree


def body_of(message: dict[str, Any]) -> bytes:
    """The bytes of a recorded request or answer."""
    if "body" in message:
        return json.dumps(message["body"]).encode()
    if "body_b64" in message:
        return base64.b64decode(message["body_b64"])
    return str(message.get("body_text", "")).encode()
