"""The parameters of policies: the objects that a binding selects for each evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from allotment.apiserver.conversion import in_version
from allotment.apiserver.kinds.field_validation import selector_matches
from allotment.apiserver.kinds.kind import ServedKind, StoreReader
from allotment.apiserver.served_kinds import Catalog
from allotment.model.trees import Tree

_NONE_FOUND: Final = "no params found for policy binding with `Deny` parameterNotFoundAction"
_NO_NAMESPACE: Final = "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"


class ConfigurationError(Exception):
    """Raised when a policy or a binding cannot be applied; the failure policy decides about the request."""


def parameter_kind(spec: Tree, catalog: Catalog) -> tuple[ServedKind, str] | None:
    """The kind and the version of a policy's parameters; None if it has none. Raises ConfigurationError."""
    written = spec.get("paramKind")
    if not written:
        return None
    kind = catalog.named(written["apiVersion"], written["kind"])
    if kind is None:
        group, _, version = written["apiVersion"].rpartition("/")
        shown = f"{group}/{version}, Kind={written['kind']}"
        raise ConfigurationError(f"failed to find resource referenced by paramKind: '{shown}'")
    return kind, str(written["apiVersion"]).rpartition("/")[2]


def parameters(
    kind: tuple[ServedKind, str] | None, reference: Tree | None, namespace: str, reader: StoreReader
) -> Sequence[Tree | None]:
    """The objects that a binding selects; one None if the policy or the binding has no parameters.

    ``namespace`` is that of the request. Raises ConfigurationError.
    """
    if kind is None or not reference:
        return [None]
    served, version = kind
    chosen = reference.get("namespace") or ""
    if served.namespaced:
        chosen = chosen or namespace
        if not chosen:
            raise ConfigurationError(_NO_NAMESPACE)
    elif chosen:
        raise ConfigurationError("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
    if reference.get("name"):
        entry = reader.get(served.store_bucket, chosen, reference["name"])
        entries = [] if entry is None else [entry]
    else:
        entries = [
            entry
            for entry in reader.list(served.store_bucket, chosen or None)
            if selector_matches(reference.get("selector"), entry.tree["metadata"].get("labels") or {})
        ]
    if not entries and reference.get("parameterNotFoundAction") == "Deny":
        raise ConfigurationError(_NONE_FOUND)
    return [in_version(served, version, entry.tree) for entry in entries]
