from typing import Any

import pytest

from allotment.apiserver.access.authorization import Authorizer
from allotment.apiserver.access.bootstrap import cluster_objects, namespace_objects
from allotment.apiserver.access.default_roles import default_bindings, default_roles
from allotment.apiserver.access.rbac import PolicyRule, resolve_rules, uncovered_rules
from allotment.apiserver.kinds.kind import User
from allotment.apiserver.storage.sqlite import SqliteStore
from allotment.model.features import Features
from allotment.model.trees import Tree
from tests.unit.apiserver.shelf import FEATURES, KINDS, Shelf, created, write

GROUP = "rbac.authorization.k8s.io"
ANN = User("ann", ("system:authenticated",))


def store() -> SqliteStore:
    store = SqliteStore.open(None)
    for tree in (*default_roles(FEATURES), *default_bindings(FEATURES)):
        meta = tree["metadata"]
        store.put(f"{tree['kind'].lower()}s.{GROUP}", meta.get("namespace", ""), meta["name"], tree)
    return store


def bind(store: SqliteStore, role: str, subject: Tree, namespace: str = "shop", kind: str = "ClusterRole") -> None:
    tree = {
        "metadata": {"name": role, "namespace": namespace},
        "roleRef": {"kind": kind, "name": role},
        "subjects": [subject],
    }
    bucket = "rolebindings" if namespace else "clusterrolebindings"
    store.put(f"{bucket}.{GROUP}", namespace, role, tree)


ANN_SUBJECT = {"kind": "User", "name": "ann"}


def test_the_masters_group_is_allowed_everything() -> None:
    assert Authorizer(store())(User("root", ("system:masters",)), "delete", "x", "y") is None


def test_a_denial_names_user_verb_resource_and_scope() -> None:
    authorizer = Authorizer(store())
    assert authorizer(ANN, "list", resource="pods", namespace="shop") == (
        'User "ann" cannot list resource "pods" in API group "" in the namespace "shop"'
    )
    assert authorizer(ANN, "get", "apps", "deployments", "scale", name="d") == (
        'User "ann" cannot get resource "deployments/scale" in API group "apps" at the cluster scope'
    )
    assert authorizer(User("system:anonymous", ("system:unauthenticated",)), "get", path="/api") == (
        'User "system:anonymous" cannot get path "/api"'
    )


def test_discovery_is_allowed_for_authenticated_users() -> None:
    authorizer = Authorizer(store())
    assert authorizer(ANN, "get", path="/apis/apps/v1") is None
    assert authorizer(User("system:anonymous", ("system:unauthenticated",)), "get", path="/version") is None


def test_a_role_binding_applies_in_its_namespace() -> None:
    shop = store()
    bind(shop, "edit", ANN_SUBJECT)
    authorizer = Authorizer(shop)
    assert authorizer(ANN, "create", "", "pods", "", "shop") is None
    assert authorizer(ANN, "create", "resource.k8s.io", "resourceclaims", "", "shop") is None
    assert authorizer(ANN, "create", "", "pods", "", "other") is not None
    assert authorizer(ANN, "create", GROUP, "roles", "", "shop") is not None


@pytest.mark.parametrize(
    ("subject", "user"),
    [
        ({"kind": "ServiceAccount", "name": "bot"}, User("system:serviceaccount:shop:bot")),
        ({"kind": "ServiceAccount", "name": "bot", "namespace": "ci"}, User("system:serviceaccount:ci:bot")),
        ({"kind": "Group", "name": "team"}, User("ann", ("team",))),
    ],
)
def test_subjects_match_users_groups_and_service_accounts(subject: Tree, user: User) -> None:
    shop = store()
    bind(shop, "view", subject)
    assert Authorizer(shop)(user, "list", "", "pods", "", "shop") is None
    assert Authorizer(shop)(ANN, "list", "", "pods", "", "shop") is not None


def test_a_missing_role_is_reported() -> None:
    shop = store()
    bind(shop, "ghost", ANN_SUBJECT)
    assert str(Authorizer(shop)(ANN, "list", "", "pods", "", "shop")).endswith(
        ': RBAC: clusterrole.rbac.authorization.k8s.io "ghost" not found'
    )


def test_roles_labelled_for_aggregation_extend_view_edit_and_admin() -> None:
    shop = store()
    labels = {f"{GROUP}/aggregate-to-view": "true"}
    extra = {"verbs": ["get"], "apiGroups": ["example.com"], "resources": ["widgets"]}
    shop.put(f"clusterroles.{GROUP}", "", "extra", {"metadata": {"name": "extra", "labels": labels}, "rules": [extra]})
    for role in ("view", "edit", "admin"):
        bind(shop, role, {"kind": "User", "name": role})
        assert Authorizer(shop)(User(role), "get", "example.com", "widgets", "", "shop") is None


def test_changes_apply_as_soon_as_they_are_durable() -> None:
    import asyncio

    async def scenario() -> None:
        shop = store()
        authorizer = Authorizer(shop)
        assert authorizer(ANN, "list", "", "pods", "", "shop") is not None
        bind(shop, "view", ANN_SUBJECT)
        await shop.durable()
        assert authorizer(ANN, "list", "", "pods", "", "shop") is None
        shop.delete(f"rolebindings.{GROUP}", "shop", "view")
        await shop.durable()
        assert authorizer(ANN, "list", "", "pods", "", "shop") is not None
        authorizer.close()
        await shop.close()

    asyncio.run(scenario())


def rule(**parts: Any) -> PolicyRule:
    return PolicyRule.from_tree(parts)


@pytest.mark.parametrize(
    ("policy_rule", "attributes", "allowed"),
    [
        (rule(verbs=["get"], apiGroups=[""], resources=["pods"]), ("get", "", "pods", "log", "p"), False),
        (rule(verbs=["get"], apiGroups=[""], resources=["pods/log"]), ("get", "", "pods", "log", "p"), True),
        (rule(verbs=["get"], apiGroups=["apps"], resources=["*/scale"]), ("get", "apps", "x", "scale", ""), True),
        (rule(verbs=["*"], apiGroups=["*"], resources=["*"]), ("use", "a", "b", "c", "d"), True),
        (
            rule(verbs=["get"], apiGroups=[""], resources=["pods"], resourceNames=["a"]),
            ("get", "", "pods", "", "a"),
            True,
        ),
        (
            rule(verbs=["list"], apiGroups=[""], resources=["pods"], resourceNames=["a"]),
            ("list", "", "pods", "", ""),
            False,
        ),
    ],
)
def test_permissions_of_a_rule(
    policy_rule: PolicyRule, attributes: tuple[str, str, str, str, str], allowed: bool
) -> None:
    assert policy_rule.allows(*attributes) is allowed


def test_rules_cover_equal_or_narrower_rules() -> None:
    held = [rule(verbs=["get", "list"], apiGroups=[""], resources=["pods", "*/status"])]
    assert not uncovered_rules(held, [rule(verbs=["get"], apiGroups=[""], resources=["pods", "nodes/status"])])
    missing = uncovered_rules(held, [rule(verbs=["get", "watch"], apiGroups=[""], resources=["pods"])])
    assert [sorted(part.verbs) for part in missing] == [["watch"]]
    named = rule(verbs=["get"], apiGroups=[""], resources=["pods"], resourceNames=["a"])
    assert uncovered_rules([named], [rule(verbs=["get"], apiGroups=[""], resources=["pods"])])


def test_the_initial_objects_are_valid() -> None:
    by_kind = {(kind.group, kind.kind): kind for kind in KINDS.values()}
    account = {"metadata": {"name": "default", "namespace": "default"}}
    shelf = Shelf([("serviceaccounts", account)])
    for tree in (*cluster_objects(FEATURES, port=6443), *namespace_objects("default", "pem")):
        group = tree["apiVersion"].rpartition("/")[0]
        kind = by_kind[group, tree["kind"]]
        namespace = tree["metadata"].get("namespace", "")
        _, errors = created(kind.bucket, tree, write(shelf, namespace=namespace))
        assert errors == [], tree["metadata"]["name"]


def test_a_user_without_bindings_has_the_default_rules() -> None:
    assert [item.resources for item in resolve_rules(store(), ANN, "shop").rules if not item.paths] == [
        ("selfsubjectaccessreviews", "selfsubjectrulesreviews"),
        ("selfsubjectreviews",),
    ]


def test_the_role_of_the_scheduler_depends_on_gates_as_in_kubernetes() -> None:
    """From the source of Kubernetes 1.36.3 and 1.37.2 (bootstrap policy)."""

    def granted(features: Features) -> set[tuple[str, str]]:
        [found] = [tree for tree in default_roles(features) if tree["metadata"]["name"] == "system:kube-scheduler"]
        return {(verb, name) for rule in found["rules"] for verb in rule["verbs"] for name in rule["resources"]}

    default = granted(Features("1.37"))
    assert ("list", "devicetaintrules") in default
    assert ("list", "devicetaintrules") not in granted(Features("1.36"))
    assert ("list", "devicetaintrules") in granted(Features("1.34", {"DRADeviceTaints": True}))
    assert ("list", "workloads") in granted(Features("1.35", {"GenericWorkload": True}))
    assert ("create", "resourceclaims") in default
    assert ("create", "resourceclaims") not in granted(Features("1.36", {"DRAExtendedResource": False}))
    assert ("update", "resourceclaims/binding") in default
    assert ("update", "resourceclaims/binding") not in granted(Features("1.35"))
    gates = {"GenericWorkload": True, "TopologyAwareWorkloadScheduling": True, "CompositePodGroup": True}
    assert granted(Features("1.37", gates)) - default == {
        *((verb, name) for verb in ("get", "list", "watch") for name in ("podgroups", "compositepodgroups")),
        *((verb, f"{name}/status") for verb in ("patch", "update") for name in ("podgroups", "compositepodgroups")),
    }


def test_roles_of_users_contain_groups_only_where_pods_can_have_them() -> None:
    def granted(features: Features, role: str, *verbs: str) -> set[str]:
        [found] = [
            tree for tree in default_roles(features) if tree["metadata"]["name"] == f"system:aggregate-to-{role}"
        ]
        rules = [rule for rule in found["rules"] if rule["apiGroups"] == ["scheduling.k8s.io"]]
        return {name for rule in rules if set(verbs) <= set(rule["verbs"]) for name in rule["resources"]}

    groups = Features("1.37", {"GenericWorkload": True})
    assert granted(Features("1.37"), "edit") == set()
    assert granted(groups, "view", "watch") == {"podgroups", "podgroups/status", "workloads"}
    assert granted(groups, "view", "create") == set()
    assert granted(groups, "edit", "create") == {"podgroups", "workloads"}
    composite = Features("1.37", {"GenericWorkload": True, "CompositePodGroup": True})
    assert granted(composite, "edit", "create") == {"podgroups", "workloads", "compositepodgroups"}
