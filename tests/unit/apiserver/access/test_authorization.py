from typing import Any

import pytest

from allotment.apiserver.access.authorization import Authorizer
from allotment.apiserver.access.bootstrap import cluster_objects, namespace_objects
from allotment.apiserver.access.default_roles import cluster_role_bindings, cluster_roles
from allotment.apiserver.access.rbac import Rule, granted, uncovered
from allotment.apiserver.kinds.kind import User
from allotment.apiserver.storage.sqlite import SqliteStore
from allotment.model.trees import Tree
from tests.unit.apiserver.shelf import KINDS, Shelf, created, write

GROUP = "rbac.authorization.k8s.io"
ANN = User("ann", ("system:authenticated",))


def store() -> SqliteStore:
    store = SqliteStore.open(None)
    for bucket, trees in (("clusterroles", cluster_roles()), ("clusterrolebindings", cluster_role_bindings())):
        for tree in trees:
            store.put(f"{bucket}.{GROUP}", "", tree["metadata"]["name"], tree)
    return store


def bind(store: SqliteStore, role: str, subject: Tree, namespace: str = "shop", kind: str = "ClusterRole") -> None:
    tree = {
        "metadata": {"name": role, "namespace": namespace},
        "roleRef": {"kind": kind, "name": role},
        "subjects": [subject],
    }
    bucket = "rolebindings" if namespace else "clusterrolebindings"
    store.put(f"{bucket}.{GROUP}", namespace, role, tree)


PERSON = {"kind": "User", "name": "ann"}


def test_masters_may_everything() -> None:
    assert Authorizer(store())(User("root", ("system:masters",)), "delete", "x", "y") is None


def test_a_refusal_names_user_verb_resource_and_place() -> None:
    judge = Authorizer(store())
    assert judge(ANN, "list", resource="pods", namespace="shop") == (
        'User "ann" cannot list resource "pods" in API group "" in the namespace "shop"'
    )
    assert judge(ANN, "get", "apps", "deployments", "scale", name="d") == (
        'User "ann" cannot get resource "deployments/scale" in API group "apps" at the cluster scope'
    )
    assert judge(User("system:anonymous", ("system:unauthenticated",)), "get", path="/api") == (
        'User "system:anonymous" cannot get path "/api"'
    )


def test_discovery_is_for_all_who_said_who_they_are() -> None:
    judge = Authorizer(store())
    assert judge(ANN, "get", path="/apis/apps/v1") is None
    assert judge(User("system:anonymous", ("system:unauthenticated",)), "get", path="/version") is None


def test_a_binding_holds_in_its_namespace() -> None:
    shop = store()
    bind(shop, "edit", PERSON)
    judge = Authorizer(shop)
    assert judge(ANN, "create", "", "pods", "", "shop") is None
    assert judge(ANN, "create", "resource.k8s.io", "resourceclaims", "", "shop") is None
    assert judge(ANN, "create", "", "pods", "", "other") is not None
    assert judge(ANN, "create", GROUP, "roles", "", "shop") is not None


@pytest.mark.parametrize(
    ("subject", "user"),
    [
        ({"kind": "ServiceAccount", "name": "bot"}, User("system:serviceaccount:shop:bot")),
        ({"kind": "ServiceAccount", "name": "bot", "namespace": "ci"}, User("system:serviceaccount:ci:bot")),
        ({"kind": "Group", "name": "team"}, User("ann", ("team",))),
    ],
)
def test_subjects(subject: Tree, user: User) -> None:
    shop = store()
    bind(shop, "view", subject)
    assert Authorizer(shop)(user, "list", "", "pods", "", "shop") is None
    assert Authorizer(shop)(ANN, "list", "", "pods", "", "shop") is not None


def test_a_role_that_is_missing_is_told() -> None:
    shop = store()
    bind(shop, "ghost", PERSON)
    assert str(Authorizer(shop)(ANN, "list", "", "pods", "", "shop")).endswith(
        ': RBAC: clusterrole.rbac.authorization.k8s.io "ghost" not found'
    )


def test_roles_that_users_label_are_gathered_upwards() -> None:
    shop = store()
    labels = {f"{GROUP}/aggregate-to-view": "true"}
    extra = {"verbs": ["get"], "apiGroups": ["example.com"], "resources": ["widgets"]}
    shop.put(f"clusterroles.{GROUP}", "", "extra", {"metadata": {"name": "extra", "labels": labels}, "rules": [extra]})
    for role in ("view", "edit", "admin"):
        bind(shop, role, {"kind": "User", "name": role})
        assert Authorizer(shop)(User(role), "get", "example.com", "widgets", "", "shop") is None


def test_changes_count_at_once_when_durable() -> None:
    import asyncio

    async def scene() -> None:
        shop = store()
        judge = Authorizer(shop)
        assert judge(ANN, "list", "", "pods", "", "shop") is not None
        bind(shop, "view", PERSON)
        await shop.durable()
        assert judge(ANN, "list", "", "pods", "", "shop") is None
        shop.delete(f"rolebindings.{GROUP}", "shop", "view")
        await shop.durable()
        assert judge(ANN, "list", "", "pods", "", "shop") is not None
        judge.close()
        await shop.close()

    asyncio.run(scene())


def rule(**parts: Any) -> Rule:
    return Rule.of(parts)


@pytest.mark.parametrize(
    ("held", "asked", "allowed"),
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
def test_what_a_rule_allows(held: Rule, asked: tuple[str, str, str, str, str], allowed: bool) -> None:
    assert held.allows(*asked) is allowed


def test_rules_cover_what_is_not_more_than_they() -> None:
    held = [rule(verbs=["get", "list"], apiGroups=[""], resources=["pods", "*/status"])]
    assert not uncovered(held, [rule(verbs=["get"], apiGroups=[""], resources=["pods", "nodes/status"])])
    missing = uncovered(held, [rule(verbs=["get", "watch"], apiGroups=[""], resources=["pods"])])
    assert [sorted(part.verbs) for part in missing] == [["watch"]]
    named = rule(verbs=["get"], apiGroups=[""], resources=["pods"], resourceNames=["a"])
    assert uncovered([named], [rule(verbs=["get"], apiGroups=[""], resources=["pods"])])


def test_the_first_objects_pass_their_own_rules() -> None:
    by_kind = {(kind.group, kind.kind): kind for kind in KINDS.values()}
    account = {"metadata": {"name": "default", "namespace": "default"}}
    shelf = Shelf([("serviceaccounts", account)])
    for tree in (*cluster_objects(port=6443), *namespace_objects("default", "pem")):
        group = tree["apiVersion"].rpartition("/")[0]
        kind = by_kind[group, tree["kind"]]
        namespace = tree["metadata"].get("namespace", "")
        _, errors = created(kind.bucket, tree, write(shelf, namespace=namespace))
        assert errors == [], tree["metadata"]["name"]


def test_a_user_without_bindings_has_the_rules_of_all() -> None:
    assert [item.resources for item in granted(store(), ANN, "shop").rules if not item.paths] == [
        frozenset({"selfsubjectaccessreviews", "selfsubjectrulesreviews"}),
        frozenset({"selfsubjectreviews"}),
    ]
