"""M419: namespaces that do not exist in the cluster."""

from __future__ import annotations

from allotment.tools.check.rules.meaning import no_such_namespace
from tests.unit.tools.check.rules.meaning.manifests import claim, matches_of, pod, template

RULE = no_such_namespace.RULE


def namespaces(*names: str) -> str:
    """A cluster with these namespaces."""
    return "---\n".join(f"apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n" for name in names)


def test_objects_of_a_missing_namespace_are_counted() -> None:
    texts = (template(namespace="ml"), pod(namespace="ml"), claim(namespace="prod"), claim())
    first, second = matches_of(RULE, *texts, cluster=namespaces("default"))
    assert (
        first.message == 'namespace "ml" does not exist in the cluster: the API server rejects the object and 1 other'
    )
    assert first.help == "create it: kubectl create namespace ml"
    assert first.path == ("metadata", "namespace")
    assert second.message.startswith('namespace "prod" does not exist')


def test_namespace_of_the_cluster_or_the_files_exists() -> None:
    assert not matches_of(RULE, claim(namespace="ml"), cluster=namespaces("default", "ml"))
    assert not matches_of(RULE, namespaces("ml"), claim(namespace="ml"), cluster=namespaces("default"))


def test_nothing_is_known_without_all_namespaces_of_the_cluster() -> None:
    assert not matches_of(RULE, claim(namespace="ml"))
    assert not matches_of(RULE, claim(namespace="ml"), cluster=namespaces("ops"))


def test_namespace_of_a_cluster_scoped_object_has_no_meaning() -> None:
    node = "apiVersion: v1\nkind: Node\nmetadata: {name: a, namespace: ml}\n"
    assert not matches_of(RULE, node, cluster=namespaces("default"))
