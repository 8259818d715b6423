import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from allotment.apiserver.access import tokens
from allotment.apiserver.access.authentication import ANONYMOUS, Authenticator
from allotment.apiserver.access.authorization import Authorizer
from allotment.apiserver.access.default_roles import cluster_role_bindings, cluster_roles
from allotment.apiserver.access.reviews import REVIEWS, Access, token_request
from allotment.apiserver.http_messages import Peer, Request
from allotment.apiserver.kinds.kind import User
from allotment.apiserver.storage.sqlite import SqliteStore
from allotment.cluster.errors import StatusError
from allotment.model.trees import Tree

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
KEY = b"k" * 32
GROUP = "rbac.authorization.k8s.io"
ROOT = User("root", ("system:masters", "system:authenticated"), "root-uid")


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


def access(clock: Clock | None = None) -> Access:
    store = SqliteStore.open(None)
    for bucket, trees in (("clusterroles", cluster_roles()), ("clusterrolebindings", cluster_role_bindings())):
        for tree in trees:
            store.put(f"{bucket}.{GROUP}", "", tree["metadata"]["name"], tree)
    for bucket, name, uid in (("serviceaccounts", "bot", "a-1"), ("pods", "p", "p-1")):
        meta = {"name": name, "namespace": "ns", "uid": uid}
        store.put(bucket, "ns", name, {"metadata": meta, "spec": {"serviceAccountName": "bot"}})
    judge = Authorizer(store)
    static = {"secret": ROOT, "anns": User("ann")}
    return Access(Authenticator(store, clock=clock or Clock(), key=KEY, authorize=judge, static=static), judge)


def account(made: Access) -> Tree:
    entry = made.authenticator.reader.get("serviceaccounts", "ns", "bot")
    assert entry is not None
    return entry.tree


def issued(made: Access, **spec: Any) -> str:
    answer = token_request(account(made), {"spec": spec}, made, now=NOW, token_id="t-1")
    return str(answer["status"]["token"])


def asked(made: Access, peer: Peer | None = None, **headers: str) -> User | None:
    return made.authenticator(
        Request("GET", "/", headers={k.replace("_", "-"): v for k, v in headers.items()}, peer=peer)
    )


def test_who_says_nothing_is_anonymous() -> None:
    assert asked(access()) == ANONYMOUS


def test_a_certificate_names_a_user_and_groups() -> None:
    assert asked(access(), Peer("ann", ("team",))) == User("ann", ("team", "system:authenticated"))


def test_static_tokens() -> None:
    assert asked(access(), authorization="Bearer secret") == ROOT


@pytest.mark.parametrize("token", ["nope", "a.b.c", "..", "é", "e30.e30.AAAA"])
def test_wrong_tokens_are_nobodys(token: str) -> None:
    assert asked(access(), authorization=f"Bearer {token}") is None


def test_the_token_of_a_service_account() -> None:
    made = access()
    user = asked(made, authorization=f"Bearer {issued(made)}")
    assert user is not None
    assert (user.name, user.uid) == ("system:serviceaccount:ns:bot", "a-1")
    assert user.groups == ("system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated")


def test_tokens_end() -> None:
    clock = Clock()
    made = access(clock)
    token = issued(made, expirationSeconds=600)
    clock.now = NOW + timedelta(seconds=599)
    assert asked(made, authorization=f"Bearer {token}") is not None
    clock.now = NOW + timedelta(seconds=600)
    assert asked(made, authorization=f"Bearer {token}") is None


def test_a_token_ends_with_its_account_and_its_pod() -> None:
    made = access()
    store = made.authenticator.reader
    assert isinstance(store, SqliteStore)
    token = issued(made, boundObjectRef={"kind": "Pod", "name": "p", "uid": "p-1"})
    assert asked(made, authorization=f"Bearer {token}") is not None
    store.delete("pods", "ns", "p")
    assert asked(made, authorization=f"Bearer {token}") is None
    token = issued(made)
    store.put("serviceaccounts", "ns", "bot", {"metadata": {"name": "bot", "namespace": "ns", "uid": "a-2"}})
    assert asked(made, authorization=f"Bearer {token}") is None


def test_a_token_outlives_what_somebody_holds_back_by_a_minute() -> None:
    clock = Clock()
    made = access(clock)
    store = made.authenticator.reader
    assert isinstance(store, SqliteStore)
    token = issued(made, boundObjectRef={"kind": "Pod", "name": "p", "uid": "p-1"})
    meta = {"name": "p", "namespace": "ns", "uid": "p-1", "deletionTimestamp": "2026-01-02T03:05:00Z"}
    store.put("pods", "ns", "p", {"metadata": {**meta, "finalizers": ["x.io/y"]}})
    clock.now = datetime(2026, 1, 2, 3, 6, 0, tzinfo=UTC)
    assert asked(made, authorization=f"Bearer {token}") is not None
    clock.now += timedelta(seconds=1)
    assert asked(made, authorization=f"Bearer {token}") is None


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        (
            {"kind": "Pod", "name": "other"},
            'cannot bind token for serviceaccount "bot" to pod running with different serviceaccount name.',
        ),
        ({"kind": "Pod", "name": "gone"}, 'pods "gone" not found'),
        ({"kind": "Pod", "name": "p", "uid": "p-0"}, "the UID in the bound object reference"),
        (
            {"kind": "Job", "apiVersion": "batch/v1", "name": "j"},
            "cannot bind token to object of type batch/v1, Kind=Job",
        ),
        (
            {"kind": "Pod", "apiVersion": "x.io/v1", "name": "p"},
            "cannot bind token to object of type x.io/v1, Kind=Pod",
        ),
    ],
)
def test_a_token_is_bound_to_a_pod_of_its_account(reference: Tree, message: str) -> None:
    made = access()
    store = made.authenticator.reader
    assert isinstance(store, SqliteStore)
    other = {"metadata": {"name": "other", "namespace": "ns", "uid": "o-1"}, "spec": {"serviceAccountName": "default"}}
    store.put("pods", "ns", "other", other)
    with pytest.raises(StatusError, match=re.escape(message)):
        issued(made, boundObjectRef=reference)


def test_a_token_for_somebody_else_is_not_for_us() -> None:
    made = access()
    assert asked(made, authorization=f"Bearer {issued(made, audiences=['vault'])}") is None


def test_changed_tokens_are_found_out() -> None:
    made = access()
    head, payload, signature = issued(made).split(".")
    assert asked(made, authorization=f"Bearer {head}.{payload[:-1]}A.{signature}") is None
    other = tokens.issue(b"x" * 32, account(made), now=NOW, seconds=600, token_id="t")
    assert asked(made, authorization=f"Bearer {other}") is None


def test_short_tokens_are_refused() -> None:
    with pytest.raises(StatusError, match="may not specify a duration less than 10 minutes"):
        issued(access(), expirationSeconds=60)


# --- speaking for others ---------------------------------------------------------------------------------------------


def test_an_administrator_speaks_for_others() -> None:
    made = access()
    user = asked(made, authorization="Bearer secret", impersonate_user="eve", impersonate_group="a,b")
    assert user == User("eve", ("a", "b", "system:authenticated"))
    user = asked(made, authorization="Bearer secret", impersonate_user="system:serviceaccount:ns:bot")
    assert user is not None
    assert "system:serviceaccounts:ns" in user.groups


def test_others_do_not() -> None:
    with pytest.raises(StatusError) as refusal:
        asked(access(), authorization="Bearer anns", impersonate_user="root")
    assert str(refusal.value) == (
        'users "root" is forbidden: User "ann" cannot impersonate resource "users" in API group "" at the cluster scope'
    )


def test_who_may_speak_for_an_account_gets_its_groups_and_no_others() -> None:
    made = access()
    store = made.authenticator.reader
    assert isinstance(store, SqliteStore)
    rule = {"verbs": ["impersonate"], "apiGroups": [""], "resources": ["serviceaccounts"]}
    store.put(f"roles.{GROUP}", "ns", "speaker", {"metadata": {"name": "speaker"}, "rules": [rule]})
    reference = {"apiGroup": GROUP, "kind": "Role", "name": "speaker"}
    subjects = [{"kind": "User", "apiGroup": GROUP, "name": "ann"}]
    binding = {"metadata": {"name": "speaker"}, "roleRef": reference, "subjects": subjects}
    store.put(f"rolebindings.{GROUP}", "ns", "speaker", binding)
    bot = "system:serviceaccount:ns:bot"
    user = asked(made, authorization="Bearer anns", impersonate_user=bot)
    assert user is not None
    assert user.groups == ("system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated")
    with pytest.raises(StatusError, match='groups "system:masters" is forbidden'):
        asked(made, authorization="Bearer anns", impersonate_user=bot, impersonate_group="system:masters")


def test_nobody_speaks_for_a_group_alone() -> None:
    with pytest.raises(StatusError, match="Impersonate-User is missing"):
        asked(access(), authorization="Bearer secret", impersonate_group="readers")


# --- reviews ---------------------------------------------------------------------------------------------------------


def review(plural: str, group: str, spec: Mapping[str, Any], user: User = ROOT) -> Tree:
    made = access()
    tree = {"kind": "Review", "metadata": {"namespace": "ns"}, "spec": spec}
    status: Tree = REVIEWS[f"{plural}.{group}"](tree, user, made)["status"]
    return status


def test_who_am_i() -> None:
    assert review("selfsubjectreviews", "authentication.k8s.io", {}) == {
        "userInfo": {"username": "root", "uid": "root-uid", "groups": ["system:masters", "system:authenticated"]}
    }


def test_may_i() -> None:
    attributes = {"resourceAttributes": {"verb": "list", "resource": "pods", "namespace": "ns"}}
    assert review("selfsubjectaccessreviews", "authorization.k8s.io", attributes) == {"allowed": True}
    assert review("selfsubjectaccessreviews", "authorization.k8s.io", attributes, User("ann")) == {"allowed": False}


def test_may_they() -> None:
    spec = {"user": "ann", "groups": ["system:masters"], "nonResourceAttributes": {"verb": "get", "path": "/metrics"}}
    assert review("subjectaccessreviews", "authorization.k8s.io", spec) == {"allowed": True}


def test_questions_about_nothing_are_refused() -> None:
    with pytest.raises(
        StatusError, match="exactly one of nonResourceAttributes or resourceAttributes must be specified"
    ):
        review("selfsubjectaccessreviews", "authorization.k8s.io", {})


def test_local_questions_stay_in_their_namespace() -> None:
    with pytest.raises(StatusError, match=r"must match metadata\.namespace"):
        review(
            "localsubjectaccessreviews", "authorization.k8s.io", {"user": "a", "resourceAttributes": {"namespace": "b"}}
        )


def test_what_may_i() -> None:
    status = review(
        "selfsubjectrulesreviews", "authorization.k8s.io", {"namespace": "ns"}, User("ann", ("system:authenticated",))
    )
    assert {"verbs": ["create"], "apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"]} in status[
        "resourceRules"
    ]
    assert status["incomplete"] is False


def test_whose_token() -> None:
    assert review("tokenreviews", "authentication.k8s.io", {"token": "secret"})["user"]["username"] == "root"
    assert review("tokenreviews", "authentication.k8s.io", {"token": "nope"}) == {
        "user": {},
        "error": "invalid bearer token",
    }


def test_the_token_of_a_pod_tells_its_node() -> None:
    made = access()
    store = made.authenticator.reader
    assert isinstance(store, SqliteStore)
    store.put("nodes", "", "n1", {"metadata": {"name": "n1", "uid": "n-1"}})
    meta = {"name": "q", "namespace": "ns", "uid": "q-1"}
    store.put("pods", "ns", "q", {"metadata": meta, "spec": {"serviceAccountName": "bot", "nodeName": "n1"}})
    for pod, node in (("q", {"node-name": ("n1",), "node-uid": ("n-1",)}), ("p", {})):
        user = asked(made, authorization=f"Bearer {issued(made, boundObjectRef={'kind': 'Pod', 'name': pod})}")
        assert user is not None
        told = {name.rpartition("/")[2]: value for name, value in user.extra.items()}
        assert told["pod-name"] == (pod,)
        assert {name: value for name, value in told.items() if name.startswith("node")} == node


def test_what_kubelets_ask_for_is_good_for_a_year_though_it_says_an_hour() -> None:
    """As upstream has it: many programs read their token once."""
    clock = Clock()
    made = access(clock)
    pod = {"kind": "Pod", "name": "p", "uid": "p-1"}
    usual, other, unbound = (
        issued(made, expirationSeconds=3607, boundObjectRef=pod),
        issued(made, expirationSeconds=3600, boundObjectRef=pod),
        issued(made, expirationSeconds=3607),
    )
    clock.now = NOW + timedelta(hours=2)
    assert asked(made, authorization=f"Bearer {usual}") is not None
    assert asked(made, authorization=f"Bearer {other}") is None
    assert asked(made, authorization=f"Bearer {unbound}") is None
    clock.now = NOW + timedelta(days=366)
    assert asked(made, authorization=f"Bearer {usual}") is None
