"""What a URL path asks for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.apiserver.paths import Target, parse


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/api/v1/pods", Target("", "v1", "pods")),
        ("/api/v1/namespaces", Target("", "v1", "namespaces")),
        ("/api/v1/namespaces/shop", Target("", "v1", "namespaces", "", "shop")),
        ("/api/v1/namespaces/shop/finalize", Target("", "v1", "namespaces", "", "shop", "finalize")),
        ("/api/v1/namespaces/shop/pods/", Target("", "v1", "pods", "shop")),
        ("/api/v1/namespaces/shop/pods/a/log", Target("", "v1", "pods", "shop", "a", "log")),
        ("/apis/apps/v1/deployments", Target("apps", "v1", "deployments")),
        ("/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode",
         Target("rbac.authorization.k8s.io", "v1", "clusterroles", "", "system:node")),
        ("/api/v1/watch/namespaces/shop/pods", Target("", "v1", "pods", "shop", watch=True)),
        ("/api/v1/namespaces/shop/pods/a/b/c", Target("", "v1", "pods", "shop", "a", "b", "c")),
    ],
)  # fmt: skip
def test_paths_of_resources(path: str, target: Target) -> None:
    assert parse(path) == target


@pytest.mark.parametrize("path", ["/", "/api", "/api/v1", "/apis", "/apis/apps", "/apis/apps/v1", "/healthz", "//a//b"])
def test_other_paths_name_no_resource(path: str) -> None:
    assert parse(path) is None


@given(st.text())
def test_no_path_raises(path: str) -> None:
    parse(path)
