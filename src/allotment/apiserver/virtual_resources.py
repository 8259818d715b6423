"""Calls that are written like objects but are none: binding and evicting pods, tokens, reviews.

Each is judged by the kind or by access control; here they are read, carried out on the store and answered.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from allotment.apiserver import api_errors, deletion, metadata
from allotment.apiserver.access.reviews import REVIEWS, AccessControl, token_request
from allotment.apiserver.kinds import binding_and_eviction
from allotment.apiserver.request_options import delete_options
from allotment.apiserver.verbs import Ask, Verbs
from allotment.apiserver.writes import managed_fields
from allotment.model.fields import shape_of
from allotment.model.trees import Tree

#: What bodies of calls on subresources are: kind and the versions it may be written in.
BODIES: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "binding": ("Binding", ("v1",)),
    "eviction": ("Eviction", ("policy/v1", "policy/v1beta1")),
    "token": ("TokenRequest", ("authentication.k8s.io/v1",)),
}
_PODS: Final = "pods"
_TOKENS: Final = "authentication.k8s.io/v1"


def bind(verbs: Verbs, ask: Ask, binding: Tree) -> Tree:
    """Assign a pod to a node."""
    now = verbs.now()
    entry = verbs.store.get(_PODS, ask.namespace, ask.name)
    pod = binding_and_eviction.bind(entry.tree if entry else None, ask.name, binding, verbs.write(ask, now))
    if not ask.dry_run:
        verbs.store.put(_PODS, ask.namespace, ask.name, _own_metadata(pod))
    return api_errors.success(code=201)


def evict(verbs: Verbs, ask: Ask, eviction: Tree) -> Tree:
    """Delete a pod, if the budgets of its namespace let it go."""
    now = verbs.now()
    entry = verbs.store.get(_PODS, ask.namespace, ask.name)
    judged = binding_and_eviction.evict(entry.tree if entry else None, ask.name, eviction, verbs.write(ask, now))
    options = delete_options({}, judged.options)
    dry_run = ask.dry_run or options.dry_run
    if not dry_run:
        if judged.budget is not None:
            name = judged.budget["metadata"]["name"]
            budget = _own_metadata(judged.budget)
            verbs.store.put("poddisruptionbudgets.policy", ask.namespace, name, budget)
        verbs.store.put(_PODS, ask.namespace, ask.name, _own_metadata(judged.pod))
    deletion.delete(verbs, ask._replace(subresource="", dry_run=dry_run), options)
    return api_errors.success(code=201)


def issue_token(verbs: Verbs, ask: Ask, body: Tree, access: AccessControl) -> Tree:
    """A token for a service account."""
    account = verbs.entry(ask).tree
    now = datetime.strptime(verbs.now(), "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    answered = token_request(account, body, access, now=now, token_id=verbs.ids.uid())
    spec = {key: value for key, value in answered["spec"].items() if value is not None and key != "audiences"}
    return _owned(ask, verbs, {**answered, "spec": {"audiences": None, **spec}}, answered, _TOKENS)


def review(verbs: Verbs, ask: Ask, tree: Tree, access: AccessControl) -> Tree:
    """Answer a question about access."""
    kind = ask.kind
    if kind.namespaced:
        tree = {**tree, "metadata": {**(tree.get("metadata") or {}), "namespace": ask.namespace}}
    answered = {"kind": kind.kind, "metadata": {}, **REVIEWS[kind.bucket](tree, ask.user, access)}
    return _owned(ask, verbs, tree, answered, ask.api_version)


def _owned(ask: Ask, verbs: Verbs, written: Tree, answered: Tree, api_version: str) -> Tree:
    """The answer with managed fields: upstream tracks who wrote what even of what it never stores."""
    fields = managed_fields.updated(
        None,
        {key: value for key, value in written.items() if key != "status"},
        shape_of(api_version, answered["kind"]),
        manager=ask.manager,
        api_version=api_version,
        subresource=ask.subresource,
        now=verbs.now(),
    )
    return {**answered, "metadata": {**answered["metadata"], "managedFields": fields}} if fields else answered


def _own_metadata(tree: Tree) -> Tree:
    """The tree with metadata that the store may write the revision into."""
    return {**tree, "metadata": metadata.ordered(tree["metadata"])}
