"""Masks the parts of answers that differ between two runs, and maps recorded values to those of this run.

Uids, revisions, times and generated suffixes differ; later requests that contain them need the values of this run.
:func:`masked` hides the differences; :class:`Correspondence` maps each recorded value to that of this run.
"""

from __future__ import annotations

import base64
import json
import re
from functools import lru_cache
from typing import Any

_UUID = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
_TIME = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)")
_AGE = re.compile(r"(?:\d+[ydhms]){1,2}|<unknown>")
#: The letters of generated suffixes: no vowels, and no digits that look like letters.
_ENDING = re.compile(r"-[bcdfghjklmnpqrstvwxz2456789]{5,10}\b")
#: Texts that contain a revision of the server.
_REVISION = re.compile(r'(current: |in record \(|version: \d+ \(|resourceVersion: ")\d+(?![0-9a-f-])')
#: A label selector with the hash of a template, and an event's name with the time of its first occurrence.
_HASH = re.compile(r"(pod-template-hash=)[0-9a-z]+")
_MOMENT = re.compile(r"\.1[0-9a-f]{15}\b")
_ADDRESS = re.compile(r"\b10\.96\.\d+\.\d+\b")
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.*", re.DOTALL)
_CEL_SYNTAX = re.compile(r"(ERROR: <input>:\d+:\d+: Syntax error).*", re.DOTALL)
_HIDDEN = {"uid": "UID", "resourceVersion": "REVISION", "continue": "CONTINUE", "token": "TOKEN", "nodePort": 0}
#: Labels whose value is a hash of a template or an object's uid.
_HASHES = ("pod-template-hash", "controller-revision-hash")


def masked(tree: Any) -> Any:
    """The same without the parts that differ from run to run."""
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
    """Entries are in the order of their times, which differs when requests are slower."""
    return tuple(str(entry.get(key)) for key in ("manager", "operation", "subresource", "apiVersion"))


@lru_cache(100_000)
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
    """Maps recorded values to this run's: revisions, uids, continue tokens, tokens, ETags."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self.revisions: dict[int, int] = {}

    def learn(self, recorded: Any, actual: Any) -> None:
        """Record the values at the same places of two answers."""
        if isinstance(recorded, dict) and isinstance(actual, dict):
            for key, item in recorded.items():
                other = actual.get(key)
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
        elif isinstance(recorded, list) and isinstance(actual, list):
            for item, other in zip(recorded, actual, strict=False):
                self.learn(item, other)

    def revision(self, recorded: str) -> str:
        """This run's revision for a recorded one: the same moment, or the last known before it."""
        if not recorded.isdigit() or not 5 < int(recorded) < 10_000_000:
            return recorded
        known = [number for number in self.revisions if number <= int(recorded)]
        return str(self.revisions[max(known)]) if known else recorded

    def text(self, text: str) -> str:
        """A path or header with this run's values in place of the recorded ones."""
        for recorded, actual in self.values.items():
            if len(recorded) > 5 and recorded in text:
                text = text.replace(recorded, actual)
        return re.sub(r"(resourceVersion=)(\d+)", lambda found: found.group(1) + self.revision(found.group(2)), text)

    def tree(self, tree: Any) -> Any:
        """A body with this run's values in place of the recorded ones."""
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
