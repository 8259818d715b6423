"""What an author meant where the API server refuses a value: told from the error, which lists what may stand there."""

from __future__ import annotations

import re
from typing import Final

from allotment.engine.diagnosis.published_names import near
from allotment.model.editing.edits import SetValue
from allotment.model.loading import Document
from allotment.model.loading.marks import Path
from allotment.model.semver import Semver, SemverError
from allotment.model.validation.errors import ErrorType, FieldError
from allotment.tools.check.rule import Fix
from allotment.tools.views import at

_QUOTED: Final = re.compile(r'"([^"]*)"')
_CLAIMS: Final = "must be one of the names in pod.spec.resourceClaims: "


def correction(document: Document, path: Path, error: FieldError) -> Fix | None:
    """The value that was meant; None where nothing tells."""
    value = at(document.tree, path)
    if not isinstance(value, str):
        # An entry of a list is named by its name.
        path, value = (*path, "name"), at(document.tree, (*path, "name"))
    if not isinstance(value, str):
        return None
    meant, safe = _version(value, error) or _supported(value, error) or _claim(value, error) or ("", False)
    return Fix(f"write {meant}", ((document, SetValue(path, meant)),), safe) if meant else None


def _version(value: str, error: FieldError) -> tuple[str, bool] | None:
    """A version that lacks a number or two can only be meant to have zeros there."""
    if "semver.org" not in error.detail:
        return None
    try:
        return str(Semver.parse(value.strip(), normalize=True)), True
    except SemverError:
        return None


def _supported(value: str, error: FieldError) -> tuple[str, bool] | None:
    """Where only a few values may stand: the one that differs in case, or the nearest."""
    if error.type is not ErrorType.NOT_SUPPORTED:
        return None
    known = _QUOTED.findall(error.detail)
    same = [one for one in known if one.lower() == value.lower()]
    close = same or near(value, known)
    return (close[0], bool(same)) if len(close) == 1 else None


def _claim(value: str, error: FieldError) -> tuple[str, bool] | None:
    """A claim of the pod: the nearest, or the only one."""
    if error.type is not ErrorType.NOT_FOUND or not error.detail.startswith(_CLAIMS):
        return None
    known = error.detail.removeprefix(_CLAIMS).split(", ")
    close = near(value, known) or tuple(known)
    return (close[0], False) if len(close) == 1 else None
