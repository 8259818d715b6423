"""M419: a namespace that does not exist in the cluster."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from allotment.model.core import Namespace
from allotment.model.loading import Document
from allotment.model.loading.marks import Path
from allotment.phrases import counted
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.rule import Rule, RuleMatch
from allotment.tools.views import mapping, text

#: A namespace of every cluster: without it, the given namespaces are not all of them.
_ALWAYS: Final = "default"


def _find(bundle: Bundle) -> Iterator[RuleMatch]:
    for name, (first, *others) in missing_namespaces(bundle).items():
        path: Path = ("metadata", "namespace")
        yield RuleMatch(
            first,
            path if _written(first) else ("metadata", "name"),
            f'namespace "{name}" does not exist in the cluster: the API server rejects the object'
            + (f" and {counted(len(others), 'other')}" if others else ""),
            help=f"create it: kubectl create namespace {name}",
        )


def missing_namespaces(bundle: Bundle) -> dict[str, list[Document]]:
    """The namespaces of the files that do not exist, with their objects; none if it is not known which ones exist."""
    given = bundle.cluster.of(Namespace) if bundle.cluster else ()
    missing: dict[str, list[Document]] = {}
    for document in bundle.documents if any(value.metadata.name == _ALWAYS for value in given) else ():
        name = _namespace(bundle, document)
        if name and name not in bundle.namespaces:
            missing.setdefault(name, []).append(document)
    return missing


def _namespace(bundle: Bundle, document: Document) -> str:
    """The namespace of an object; empty if it has none, or if that is not certain."""
    manifest = bundle.manifests.get(document)
    if manifest is not None and not manifest.key.namespace:  # a cluster-scoped kind
        return ""
    of_pods = {view.document for view in bundle.pods} | {view.document for view in bundle.claims}
    return _written(document) or (bundle.namespace if document.kind and document in of_pods else "")


def _written(document: Document) -> str:
    return text(mapping(document.tree.get("metadata")).get("namespace"))


_CLUSTER: Final = """\
apiVersion: v1
kind: Namespace
metadata:
  name: default
---
apiVersion: v1
kind: Namespace
metadata:
  name: ml
"""

RULE = Rule(
    code="M419",
    name="no-such-namespace",
    family="meaning",
    level="error",
    summary="the namespace of an object does not exist in the given cluster",
    why=(
        "Kubernetes does not create namespaces on demand: the API server rejects an object in a namespace that does "
        "not exist, with 'namespaces \"NAME\" not found'. The namespace must be created before, or be in the same "
        "files, before its objects. The rule requires a cluster (--context, or --cluster with its namespaces)."
    ),
    bad=examples.template("gpu", namespace="ml-team"),
    good=examples.template("gpu", namespace="ml"),
    find=_find,
    see="https://kubernetes.io/docs/concepts/overview/working-with-objects/namespaces/",
    cluster=_CLUSTER,
)
