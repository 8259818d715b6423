"""The chart's component ``web``: how visitors reach the page, and who else does not."""

from __future__ import annotations

from typing import Any

import pytest

from allotment.model.trees import Tree
from tests.packaging import restricted
from tests.packaging.helm import HelmError, named, only, settings, template

NAME = "allotment-web"


def rendered(helm: str, **values: Any) -> list[Tree]:
    return template(helm, *only("web"), *settings(**values), "--skip-tests")


def container(trees: list[Tree]) -> Tree:
    (found,) = restricted.pod_of(named(trees, "Deployment", NAME))["containers"]
    return dict(found)


def test_two_replicas_share_the_address_of_a_service(helm: str) -> None:
    trees = rendered(helm)
    assert named(trees, "Deployment", NAME)["spec"]["replicas"] == 2
    assert named(trees, "PodDisruptionBudget", NAME)["spec"]["maxUnavailable"] == 1
    service = named(trees, "Service", NAME)["spec"]
    assert "clusterIP" not in service
    assert service["ports"][0] == {"name": "https", "port": 443, "targetPort": "https", "appProtocol": "https"}
    assert {"name": "https", "containerPort": 8444} in container(trees)["ports"]
    assert not [tree for tree in trees if tree["kind"] in ("Lease", "Role")]


def test_the_page_only_reads(helm: str) -> None:
    rules = named(rendered(helm), "ClusterRole", NAME)["rules"]
    written = {
        (resource, verb)
        for rule in rules
        for resource in rule.get("resources", ())
        for verb in set(rule["verbs"]) - {"get", "list", "watch"}
    }
    assert written == {("tokenreviews", "create"), ("subjectaccessreviews", "create")}
    assert not [rule for rule in rules if "secrets" in rule.get("resources", ())]


def test_only_the_page_accepts_visitors(helm: str) -> None:
    trees = rendered(helm, **{"networkPolicy.webFrom[0].namespaceSelector.matchLabels.team": "ingress"})
    policy = named(trees, "NetworkPolicy", NAME)["spec"]
    assert policy["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "web"
    assert policy["ingress"] == [
        {
            "ports": [{"protocol": "TCP", "port": 8444}],
            "from": [{"namespaceSelector": {"matchLabels": {"team": "ingress"}}}],
        }
    ]
    shared = named(trees, "NetworkPolicy", "allotment")["spec"]
    assert 8444 not in [port["port"] for rule in shared["ingress"] for port in rule["ports"]]
    without = rendered(helm, **{"networkPolicy.enabled": False})
    assert not [tree for tree in without if tree["kind"] == "NetworkPolicy"]


def test_an_ingress_is_optional(helm: str) -> None:
    assert not [tree for tree in rendered(helm) if tree["kind"] == "Ingress"]
    trees = rendered(
        helm,
        **{
            "components.web.ingress.enabled": True, "components.web.ingress.host": "gpus.example",
            "components.web.ingress.className": "nginx", "components.web.ingress.tlsSecretName": "gpus-tls",
            "components.web.hosts[0]": "gpus.internal",
        },
    )  # fmt: skip
    ingress = named(trees, "Ingress", NAME)["spec"]
    assert ingress["ingressClassName"] == "nginx"
    assert ingress["tls"] == [{"hosts": ["gpus.example"], "secretName": "gpus-tls"}]
    (path,) = ingress["rules"][0]["http"]["paths"]
    assert path["backend"] == {"service": {"name": NAME, "port": {"name": "https"}}}
    hosts = [word for word in container(trees)["args"] if word.startswith("--allowed-host=")]
    assert [word.partition("=")[2] for word in hosts] == [
        NAME, f"{NAME}.$(POD_NAMESPACE)", f"{NAME}.$(POD_NAMESPACE).svc", "gpus.example", "gpus.internal",
    ]  # fmt: skip


def test_an_ingress_may_have_a_path_that_the_page_knows(helm: str) -> None:
    ingress = {"components.web.ingress.enabled": "true", "components.web.ingress.host": "tools.example.com"}
    trees = rendered(helm, **ingress, **{"components.web.ingress.path": "/allotment"})
    (rule,) = named(trees, "Ingress", NAME)["spec"]["rules"]
    assert rule["http"]["paths"][0]["path"] == "/allotment"
    assert "--base-path=/allotment" in container(trees)["args"]
    with pytest.raises(HelmError, match="path"):
        rendered(helm, **ingress, **{"components.web.ingress.path": "/a b"})


def test_an_ingress_requires_a_host(helm: str) -> None:
    with pytest.raises(HelmError, match="components/web/ingress/host"):
        rendered(helm, **{"components.web.ingress.enabled": True})


def test_tokens_require_tls_also_without_metrics(helm: str) -> None:
    trees = rendered(helm, **{"metrics.enabled": False})
    assert "--tls-cert-file=/etc/allotment/tls/tls.crt" in container(trees)["args"]
    assert named(trees, "Secret", "allotment-metrics-tls")["type"] == "kubernetes.io/tls"
    assert not [word for word in container(trees)["args"] if word.startswith("--metrics")]


def test_a_service_mesh_may_encrypt_instead(helm: str) -> None:
    trees = rendered(helm, **{"components.web.http": True, "metrics.enabled": False})
    assert "--http" in container(trees)["args"]
    assert not [word for word in container(trees)["args"] if word.startswith("--tls")]
    assert named(trees, "Service", NAME)["spec"]["ports"][0] == {
        "name": "http", "port": 80, "targetPort": "http", "appProtocol": "http",
    }  # fmt: skip
    assert not [tree for tree in trees if tree["kind"] == "Secret"]


def test_the_price_catalog_is_passed_on(helm: str) -> None:
    assert "--catalog=aws" in container(rendered(helm, **{"components.web.catalog": "aws"}))["args"]
