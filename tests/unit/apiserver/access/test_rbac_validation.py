import pytest

from allotment.cluster.errors import StatusError
from allotment.model.trees import Tree
from tests.unit.apiserver.shelf import Shelf, created, updated, write

GROUP = "rbac.authorization.k8s.io"


def role(*rules: Tree, kind: str = "Role", name: str = "r") -> Tree:
    return {"kind": kind, "metadata": {"name": name, "namespace": "ns"}, "rules": list(rules)}


def binding(name: str, user: str, kind: str = "Role") -> Tree:
    return {
        "kind": "RoleBinding",
        "metadata": {"name": name, "namespace": "ns"},
        "roleRef": {"apiGroup": GROUP, "kind": kind, "name": name},
        "subjects": [{"kind": "User", "apiGroup": GROUP, "name": user}],
    }


def rule(*verbs: str, group: str = "", resources: tuple[str, ...] = ("pods",)) -> Tree:
    return {"verbs": list(verbs), "apiGroups": [group], "resources": list(resources)}


def test_rules_require_verbs_and_resources() -> None:
    _, errors = created(f"roles.{GROUP}", role({"apiGroups": [""]}), write())
    assert errors == [
        "rules[0].verbs: Required value: verbs must contain at least one value",
        "rules[0].resources: Required value: resource rules must supply at least one resource",
    ]


def test_role_ref_is_immutable() -> None:
    old = binding("a", "ann")
    new = {**old, "roleRef": {**old["roleRef"], "name": "b"}}
    (error,) = updated(f"rolebindings.{GROUP}", new, old, write())[1]
    assert error == (
        'roleRef: Invalid value: {"APIGroup":"rbac.authorization.k8s.io","Kind":"Role","Name":"b"}: cannot change '
        "roleRef"
    )


def test_users_cannot_grant_permissions_they_do_not_have() -> None:
    shelf = Shelf(
        [(f"roles.{GROUP}", role(rule("get"), name="reader")), (f"rolebindings.{GROUP}", binding("reader", "ann"))]
    )
    with pytest.raises(StatusError) as refusal:
        created(f"roles.{GROUP}", role(rule("watch", "get", "list")), write(shelf, user="ann"))
    assert str(refusal.value) == (
        'roles.rbac.authorization.k8s.io "r" is forbidden: user "ann" (groups=["system:authenticated"]) is attempting '
        'to grant RBAC permissions not currently held:\n{APIGroups:[""], Resources:["pods"], Verbs:["watch" "list"]}'
    )
    assert created(f"roles.{GROUP}", role(rule("get")), write(shelf, user="ann"))[1] == []


def test_a_missing_role_can_be_bound_only_by_users_who_may_bind_it() -> None:
    with pytest.raises(StatusError) as refusal:
        created(f"rolebindings.{GROUP}", binding("ghost", "bob"), write(user="ann"))
    assert (refusal.value.code, str(refusal.value)) == (404, 'rolebindings.rbac.authorization.k8s.io "ghost" not found')


def test_the_escalate_verb_allows_granting_anything() -> None:
    power = role(rule("escalate", group=GROUP, resources=("roles",)), name="power")
    shelf = Shelf([(f"roles.{GROUP}", power), (f"rolebindings.{GROUP}", binding("power", "ann"))])
    assert created(f"roles.{GROUP}", role(rule("*", group="*", resources=("*",))), write(shelf, user="ann"))[1] == []


def test_the_bind_verb_allows_binding_a_role() -> None:
    strong = role(rule("*", group="*", resources=("*",)), name="strong")
    binder = role(rule("bind", group=GROUP, resources=("roles",)), name="binder")
    shelf = Shelf(
        [(f"roles.{GROUP}", strong), (f"roles.{GROUP}", binder), (f"rolebindings.{GROUP}", binding("binder", "ann"))]
    )
    assert created(f"rolebindings.{GROUP}", binding("strong", "bob"), write(shelf, user="ann"))[1] == []
    with pytest.raises(StatusError, match="attempting to grant RBAC permissions not currently held"):
        created(f"rolebindings.{GROUP}", binding("strong", "bob"), write(shelf, user="eve"))


def test_aggregation_rules_require_all_permissions() -> None:
    aggregating = {"rules": [rule("get")], "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}}
    cluster = {"kind": "ClusterRole", "metadata": {"name": "gathers"}}
    reader = {**cluster, "rules": [rule("get")]}
    bound = {**binding("gathers", "ann", "ClusterRole"), "kind": "ClusterRoleBinding", "metadata": {"name": "gathers"}}
    bucket = f"clusterroles.{GROUP}"
    shelf = Shelf([(bucket, reader), (f"clusterrolebindings.{GROUP}", bound)])
    ann = write(shelf, user="ann")._replace(namespace="")
    message = "must have cluster-admin privileges to use an aggregationRule"
    with pytest.raises(StatusError, match=message):
        created(bucket, {**cluster, **aggregating}, ann)
    with pytest.raises(StatusError, match=message):
        updated(bucket, {**cluster, **aggregating}, reader, ann)
