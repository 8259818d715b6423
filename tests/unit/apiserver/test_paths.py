"""Parsing of URL paths."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.apiserver.paths import ResourcePath, parse


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/api/v1/pods", ResourcePath("", "v1", "pods")),
        ("/api/v1/namespaces", ResourcePath("", "v1", "namespaces")),
        ("/api/v1/namespaces/shop", ResourcePath("", "v1", "namespaces", "", "shop")),
        ("/api/v1/namespaces/shop/finalize", ResourcePath("", "v1", "namespaces", "", "shop", "finalize")),
        ("/api/v1/namespaces/shop/pods/", ResourcePath("", "v1", "pods", "shop")),
        ("/api/v1/namespaces/shop/pods/a/log", ResourcePath("", "v1", "pods", "shop", "a", "log")),
        ("/apis/apps/v1/deployments", ResourcePath("apps", "v1", "deployments")),
        ("/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode",
         ResourcePath("rbac.authorization.k8s.io", "v1", "clusterroles", "", "system:node")),
        ("/api/v1/watch/namespaces/shop/pods", ResourcePath("", "v1", "pods", "shop", watch=True)),
        ("/api/v1/namespaces/shop/pods/a/b/c", ResourcePath("", "v1", "pods", "shop", "a", "b", "c")),
    ],
)  # fmt: skip
def test_paths_of_resources(path: str, target: ResourcePath) -> None:
    assert parse(path) == target


@pytest.mark.parametrize("path", ["/", "/api", "/api/v1", "/apis", "/apis/apps", "/apis/apps/v1", "/healthz", "//a//b"])
def test_non_resource_paths(path: str) -> None:
    assert parse(path) is None


@given(st.text())
def test_parsing_never_raises(path: str) -> None:
    parse(path)
