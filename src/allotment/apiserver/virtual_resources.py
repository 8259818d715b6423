"""Virtual resources, which are created but not stored: bindings, evictions, tokens, access reviews.

The kinds and access control decide; this module applies their decisions to the store and builds the responses.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from allotment.apiserver import api_errors, deletion, metadata
from allotment.apiserver.access import secret_tokens
from allotment.apiserver.access.reviews import REVIEWS, AccessControl, token_request
from allotment.apiserver.kinds import binding_and_eviction
from allotment.apiserver.kinds.kind import User
from allotment.apiserver.operation import Operation
from allotment.apiserver.request_options import delete_options
from allotment.apiserver.verbs import Verbs
from allotment.apiserver.writes import managed_fields
from allotment.cluster.errors import StatusError
from allotment.model.fields import shape_of
from allotment.model.trees import Tree

#: The kind of a subresource's request body, and the API versions it may have.
BODIES: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "binding": ("Binding", ("v1",)),
    "eviction": ("Eviction", ("policy/v1", "policy/v1beta1")),
    "token": ("TokenRequest", ("authentication.k8s.io/v1",)),
}
_PODS: Final = "pods"
_SERVER: Final = User("system:apiserver", ("system:masters",))
_TOKENS: Final = "authentication.k8s.io/v1"


def call(verbs: Verbs, access: AccessControl, operation: Operation, tree: Tree) -> Tree:
    """Carry out a create on a virtual resource and return its result."""
    kind = operation.kind
    if operation.subresource in BODIES:
        body_kind, versions = BODIES[operation.subresource]
        written = {"kind": body_kind, "apiVersion": versions[0], **tree}
        verbs.admission.restrict_node(operation, "CREATE", written)
        tree = verbs.admission.admit(operation, "CREATE", written, body_kind=(versions[0], body_kind)) or written
        operation = operation._replace(is_admitted=True)
    if operation.subresource == "binding":
        return _bind(verbs, operation, tree)
    if kind.bucket == "bindings":
        pods = verbs.catalog.find("", "v1", _PODS)
        assert pods is not None, "pods are always served"
        name = (tree.get("metadata") or {}).get("name") or ""
        return _bind(verbs, operation._replace(kind=pods, name=name), tree)
    if operation.subresource == "eviction":
        return _evict(verbs, operation, tree)
    if operation.subresource == "token":
        return _issue_token(verbs, operation, tree, access)
    if kind.verbs == ("create",) and not operation.subresource:
        tree = {"kind": kind.kind, "apiVersion": operation.api_version, **tree}
        return _review(verbs, operation, tree, access)
    raise api_errors.unknown_path()


def _bind(verbs: Verbs, operation: Operation, binding: Tree) -> Tree:
    """Assign a pod to a node."""
    now = verbs.now()
    entry = verbs.store.get(_PODS, operation.namespace, operation.name)
    pod = binding_and_eviction.bind(
        entry.tree if entry else None, operation.name, binding, verbs.write_context(operation, now)
    )
    if not operation.dry_run:
        verbs.store.put(_PODS, operation.namespace, operation.name, _own_metadata(pod))
    return api_errors.success(code=201)


def _evict(verbs: Verbs, operation: Operation, eviction: Tree) -> Tree:
    """Delete a pod if the disruption budgets of its namespace allow it."""
    now = verbs.now()
    entry = verbs.store.get(_PODS, operation.namespace, operation.name)
    eviction_result = binding_and_eviction.evict(
        entry.tree if entry else None, operation.name, eviction, verbs.write_context(operation, now)
    )
    options = delete_options({}, eviction_result.options)
    dry_run = operation.dry_run or options.dry_run
    if not dry_run:
        if eviction_result.budget is not None:
            name = eviction_result.budget["metadata"]["name"]
            budget = _own_metadata(eviction_result.budget)
            verbs.store.put("poddisruptionbudgets.policy", operation.namespace, name, budget)
        verbs.store.put(_PODS, operation.namespace, operation.name, _own_metadata(eviction_result.pod))
    deletion.delete(verbs, operation._replace(subresource="", dry_run=dry_run), options)
    return api_errors.success(code=201)


def _issue_token(verbs: Verbs, operation: Operation, body: Tree, access: AccessControl) -> Tree:
    """Issue a token for a service account."""
    account = verbs.entry(operation).tree
    now = _moment(verbs)
    result = token_request(account, body, access, now=now, token_id=verbs.ids.uid())
    spec = {key: value for key, value in result["spec"].items() if value is not None and key != "audiences"}
    return _owned(operation, verbs, {**result, "spec": {"audiences": None, **spec}}, result, _TOKENS)


def mark_token_used(verbs: Verbs, namespace: str, name: str) -> None:
    """Set the label with the date on which the token of a Secret was last used."""
    secrets = verbs.catalog.find("", "v1", "secrets")
    entry = verbs.store.get("secrets", namespace, name)
    now = _moment(verbs)
    if secrets is None or entry is None or not secret_tokens.lacks_date(entry.tree, now):
        return
    meta = entry.tree["metadata"]
    labels = {**(meta.get("labels") or {}), secret_tokens.LAST_USED: f"{now:%Y-%m-%d}"}
    operation = Operation(secrets, "v1", namespace, name, _SERVER, "kube-apiserver")
    with contextlib.suppress(StatusError):  # a policy may deny it; the token is valid nevertheless
        verbs.update(operation, {**entry.tree, "metadata": {**meta, "labels": labels}})


def _moment(verbs: Verbs) -> datetime:
    """The current time, in whole seconds."""
    return datetime.strptime(verbs.now(), "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)


def _review(verbs: Verbs, operation: Operation, tree: Tree, access: AccessControl) -> Tree:
    """Answer an access or token review."""
    kind = operation.kind
    if kind.namespaced:
        tree = {**tree, "metadata": {**(tree.get("metadata") or {}), "namespace": operation.namespace}}
    result = {"kind": kind.kind, "metadata": {}, **REVIEWS[kind.bucket](tree, operation.user, access)}
    if not result.get("spec"):  # no part of the request is repeated, so no client owns a field
        return result
    return _owned(operation, verbs, tree, result, operation.api_version)


def _owned(operation: Operation, verbs: Verbs, written: Tree, result: Tree, api_version: str) -> Tree:
    """The result with managed fields: upstream tracks them even for objects that are not stored."""
    fields = managed_fields.updated_entries(
        None,
        {key: value for key, value in written.items() if key != "status"},
        shape_of(api_version, result["kind"]),
        manager=operation.manager,
        api_version=api_version,
        subresource=operation.subresource,
        now=verbs.now(),
    )
    return {**result, "metadata": {**result["metadata"], "managedFields": fields}} if fields else result


def _own_metadata(tree: Tree) -> Tree:
    """The tree with a metadata dict of its own, into which the store can write the resourceVersion."""
    return {**tree, "metadata": metadata.ordered(tree["metadata"])}
