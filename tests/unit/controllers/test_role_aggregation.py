"""ClusterRoles with an aggregation rule get the rules of the roles that their selectors match."""

from __future__ import annotations

from allotment.cluster.resources import CLUSTER_ROLES
from allotment.controllers.role_aggregation import role_aggregation
from allotment.model.trees import Tree
from tests.unit.cluster import idle
from tests.unit.controllers.world import World, world


def rule(resource: str) -> Tree:
    return {"verbs": ["get"], "apiGroups": [""], "resources": [resource]}


def role(name: str, *resources: str, labels: Tree | None = None, selectors: list[Tree] | None = None) -> Tree:
    tree: Tree = {"metadata": {"name": name, "labels": labels or {}}, "rules": [*map(rule, resources)]}
    return {**tree, "aggregationRule": {"clusterRoleSelectors": selectors}} if selectors else tree


def resources(cluster: World, name: str) -> list[str]:
    return [rule["resources"][0] for rule in cluster.get(CLUSTER_ROLES, name).get("rules") or ()]


def test_rules_follow_the_order_of_selectors_and_names_without_duplicates() -> None:
    async def scenario() -> None:
        async with world(role_aggregation) as cluster:
            selectors: list[Tree] = [
                {"matchLabels": {"own": "true"}},
                {"matchExpressions": [{"key": "x", "operator": "Exists"}]},
            ]
            cluster.put(CLUSTER_ROLES, role("all", "replaced", selectors=selectors))
            cluster.put(CLUSTER_ROLES, role("c", "pods", labels={"x": "1"}))
            cluster.put(CLUSTER_ROLES, role("b", "nodes", labels={"own": "true"}))
            cluster.put(CLUSTER_ROLES, role("a", "secrets", "nodes", labels={"own": "true", "x": ""}))
            cluster.put(CLUSTER_ROLES, role("other", "leases"))
            await cluster.until(lambda: resources(cluster, "all") == ["secrets", "nodes", "pods"])
            cluster.remove(CLUSTER_ROLES, "a")
            await cluster.until(lambda: resources(cluster, "all") == ["nodes", "pods"])
            cluster.remove(CLUSTER_ROLES, "b")
            cluster.remove(CLUSTER_ROLES, "c")
            await cluster.until(lambda: resources(cluster, "all") == [])

    idle.run(scenario())


def test_an_aggregated_role_can_be_selected_but_not_by_itself() -> None:
    async def scenario() -> None:
        async with world(role_aggregation) as cluster:
            labels = {"to": "admin"}
            cluster.put(CLUSTER_ROLES, role("admin", labels=labels, selectors=[{"matchLabels": labels}]))
            edit = role("edit", labels=labels, selectors=[{"matchLabels": {"to": "edit"}}])
            cluster.put(CLUSTER_ROLES, edit)
            cluster.put(CLUSTER_ROLES, role("writers", "pods", labels={"to": "edit"}))
            await cluster.until(lambda: resources(cluster, "admin") == ["pods"])
            assert resources(cluster, "edit") == ["pods"]

    idle.run(scenario())
