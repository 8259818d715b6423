import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from allotment.apiserver.access import tokens
from allotment.apiserver.access.authentication import ANONYMOUS, Authenticator
from allotment.apiserver.access.authorization import Authorizer
from allotment.apiserver.access.default_roles import default_bindings, default_roles
from allotment.apiserver.access.reviews import REVIEWS, AccessControl, token_request
from allotment.apiserver.http_messages import Peer, Request
from allotment.apiserver.kinds.kind import User
from allotment.apiserver.storage.sqlite import SqliteStore
from allotment.cluster.errors import StatusError
from allotment.model.trees import Tree
from tests.unit.apiserver.shelf import FEATURES

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
KEY = b"k" * 32
GROUP = "rbac.authorization.k8s.io"
ROOT = User("root", ("system:masters", "system:authenticated"), "root-uid")


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


def access_control(clock: Clock | None = None) -> AccessControl:
    store = SqliteStore.open(None)
    for tree in (*default_roles(FEATURES), *default_bindings(FEATURES)):
        meta = tree["metadata"]
        store.put(f"{tree['kind'].lower()}s.{GROUP}", meta.get("namespace", ""), meta["name"], tree)
    for bucket, name, uid in (("serviceaccounts", "bot", "a-1"), ("pods", "p", "p-1")):
        meta = {"name": name, "namespace": "ns", "uid": uid}
        store.put(bucket, "ns", name, {"metadata": meta, "spec": {"serviceAccountName": "bot"}})
    authorizer = Authorizer(store)
    static = {"secret": ROOT, "anns": User("ann")}
    return AccessControl(
        Authenticator(store, clock=clock or Clock(), key=KEY, authorize=authorizer, static=static), authorizer
    )


def account(control: AccessControl) -> Tree:
    entry = control.authenticator.reader.get("serviceaccounts", "ns", "bot")
    assert entry is not None
    return entry.tree


def issue_token(control: AccessControl, **spec: Any) -> str:
    answer = token_request(account(control), {"spec": spec}, control, now=NOW, token_id="t-1")
    return str(answer["status"]["token"])


def authenticate(control: AccessControl, peer: Peer | None = None, **headers: str) -> User | None:
    return control.authenticator(
        Request("GET", "/", headers={k.replace("_", "-"): v for k, v in headers.items()}, peer=peer)
    )


def test_a_request_without_credentials_is_anonymous() -> None:
    assert authenticate(access_control()) == ANONYMOUS


def test_the_sender_of_a_request_is_known_before_it_is_accepted() -> None:
    """All requests without valid credentials have the same sender; impersonation does not change it."""
    authenticator = access_control().authenticator
    wrong = {"authorization": "Bearer wrong"}
    given = {"authorization": "Bearer secret", "impersonate-user": "other"}
    assert authenticator.sender(Request("POST", "/")) == "system:anonymous"
    assert authenticator.sender(Request("POST", "/", headers=wrong)) == "system:anonymous"
    assert authenticator.sender(Request("POST", "/", headers=given)) == "root"
    assert authenticator.sender(Request("POST", "/", peer=Peer("ann", ()))) == "ann"


def test_a_certificate_names_a_user_and_groups() -> None:
    assert authenticate(access_control(), Peer("ann", ("team",))) == User("ann", ("team", "system:authenticated"))


def test_a_static_token_identifies_its_user() -> None:
    assert authenticate(access_control(), authorization="Bearer secret") == ROOT


@pytest.mark.parametrize("token", ["nope", "a.b.c", "..", "é", "e30.e30.AAAA"])
def test_invalid_tokens_are_rejected(token: str) -> None:
    assert authenticate(access_control(), authorization=f"Bearer {token}") is None


def test_a_service_account_token_identifies_its_account() -> None:
    control = access_control()
    user = authenticate(control, authorization=f"Bearer {issue_token(control)}")
    assert user is not None
    assert (user.name, user.uid) == ("system:serviceaccount:ns:bot", "a-1")
    assert user.groups == ("system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated")


def test_tokens_expire() -> None:
    clock = Clock()
    control = access_control(clock)
    token = issue_token(control, expirationSeconds=600)
    clock.now = NOW + timedelta(seconds=599)
    assert authenticate(control, authorization=f"Bearer {token}") is not None
    clock.now = NOW + timedelta(seconds=600)
    assert authenticate(control, authorization=f"Bearer {token}") is None


def test_a_token_is_invalid_once_its_account_or_pod_is_deleted() -> None:
    control = access_control()
    store = control.authenticator.reader
    assert isinstance(store, SqliteStore)
    token = issue_token(control, boundObjectRef={"kind": "Pod", "name": "p", "uid": "p-1"})
    assert authenticate(control, authorization=f"Bearer {token}") is not None
    store.delete("pods", "ns", "p")
    assert authenticate(control, authorization=f"Bearer {token}") is None
    token = issue_token(control)
    store.put("serviceaccounts", "ns", "bot", {"metadata": {"name": "bot", "namespace": "ns", "uid": "a-2"}})
    assert authenticate(control, authorization=f"Bearer {token}") is None


def test_a_token_of_a_pod_held_by_finalizers_is_valid_for_another_minute() -> None:
    clock = Clock()
    control = access_control(clock)
    store = control.authenticator.reader
    assert isinstance(store, SqliteStore)
    token = issue_token(control, boundObjectRef={"kind": "Pod", "name": "p", "uid": "p-1"})
    meta = {"name": "p", "namespace": "ns", "uid": "p-1", "deletionTimestamp": "2026-01-02T03:05:00Z"}
    store.put("pods", "ns", "p", {"metadata": {**meta, "finalizers": ["x.io/y"]}})
    clock.now = datetime(2026, 1, 2, 3, 6, 0, tzinfo=UTC)
    assert authenticate(control, authorization=f"Bearer {token}") is not None
    clock.now += timedelta(seconds=1)
    assert authenticate(control, authorization=f"Bearer {token}") is None


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
def test_a_token_can_only_be_bound_to_a_pod_of_its_account(reference: Tree, message: str) -> None:
    control = access_control()
    store = control.authenticator.reader
    assert isinstance(store, SqliteStore)
    other = {"metadata": {"name": "other", "namespace": "ns", "uid": "o-1"}, "spec": {"serviceAccountName": "default"}}
    store.put("pods", "ns", "other", other)
    with pytest.raises(StatusError, match=re.escape(message)):
        issue_token(control, boundObjectRef=reference)


def test_a_token_for_another_audience_is_rejected() -> None:
    control = access_control()
    assert authenticate(control, authorization=f"Bearer {issue_token(control, audiences=['vault'])}") is None


def test_modified_tokens_are_rejected() -> None:
    control = access_control()
    head, payload, signature = issue_token(control).split(".")
    assert authenticate(control, authorization=f"Bearer {head}.{payload[:-1]}A.{signature}") is None
    other = tokens.issue(b"x" * 32, account(control), now=NOW, seconds=600, token_id="t")
    assert authenticate(control, authorization=f"Bearer {other}") is None


def test_token_durations_below_the_minimum_are_rejected() -> None:
    with pytest.raises(StatusError, match="may not specify a duration less than 10 minutes"):
        issue_token(access_control(), expirationSeconds=60)


# --- impersonation ---------------------------------------------------------------------------------------------------


def test_an_administrator_can_impersonate_users() -> None:
    control = access_control()
    user = authenticate(control, authorization="Bearer secret", impersonate_user="eve", impersonate_group="a,b")
    assert user == User("eve", ("a", "b", "system:authenticated"))
    user = authenticate(control, authorization="Bearer secret", impersonate_user="system:serviceaccount:ns:bot")
    assert user is not None
    assert "system:serviceaccounts:ns" in user.groups


def test_impersonation_requires_the_permission() -> None:
    with pytest.raises(StatusError) as refusal:
        authenticate(access_control(), authorization="Bearer anns", impersonate_user="root")
    assert str(refusal.value) == (
        'users "root" is forbidden: User "ann" cannot impersonate resource "users" in API group "" at the cluster scope'
    )


def test_impersonating_a_service_account_grants_its_groups_and_no_others() -> None:
    control = access_control()
    store = control.authenticator.reader
    assert isinstance(store, SqliteStore)
    rule = {"verbs": ["impersonate"], "apiGroups": [""], "resources": ["serviceaccounts"]}
    store.put(f"roles.{GROUP}", "ns", "speaker", {"metadata": {"name": "speaker"}, "rules": [rule]})
    reference = {"apiGroup": GROUP, "kind": "Role", "name": "speaker"}
    subjects = [{"kind": "User", "apiGroup": GROUP, "name": "ann"}]
    binding = {"metadata": {"name": "speaker"}, "roleRef": reference, "subjects": subjects}
    store.put(f"rolebindings.{GROUP}", "ns", "speaker", binding)
    bot = "system:serviceaccount:ns:bot"
    user = authenticate(control, authorization="Bearer anns", impersonate_user=bot)
    assert user is not None
    assert user.groups == ("system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated")
    with pytest.raises(StatusError, match='groups "system:masters" is forbidden'):
        authenticate(control, authorization="Bearer anns", impersonate_user=bot, impersonate_group="system:masters")


def test_groups_are_impersonated_only_together_with_a_user() -> None:
    with pytest.raises(StatusError, match="Impersonate-User is missing"):
        authenticate(access_control(), authorization="Bearer secret", impersonate_group="readers")


# --- reviews ---------------------------------------------------------------------------------------------------------


def review(plural: str, group: str, spec: Mapping[str, Any], user: User = ROOT) -> Tree:
    control = access_control()
    tree = {"kind": "Review", "metadata": {"namespace": "ns"}, "spec": spec}
    status: Tree = REVIEWS[f"{plural}.{group}"](tree, user, control)["status"]
    return status


def test_self_subject_review() -> None:
    assert review("selfsubjectreviews", "authentication.k8s.io", {}) == {
        "userInfo": {"username": "root", "uid": "root-uid", "groups": ["system:masters", "system:authenticated"]}
    }


def test_self_subject_access_review() -> None:
    attributes = {"resourceAttributes": {"verb": "list", "resource": "pods", "namespace": "ns"}}
    assert review("selfsubjectaccessreviews", "authorization.k8s.io", attributes) == {"allowed": True}
    assert review("selfsubjectaccessreviews", "authorization.k8s.io", attributes, User("ann")) == {"allowed": False}


def test_subject_access_review() -> None:
    spec = {"user": "ann", "groups": ["system:masters"], "nonResourceAttributes": {"verb": "get", "path": "/metrics"}}
    assert review("subjectaccessreviews", "authorization.k8s.io", spec) == {"allowed": True}


def test_access_reviews_without_attributes_are_invalid() -> None:
    with pytest.raises(
        StatusError, match="exactly one of nonResourceAttributes or resourceAttributes must be specified"
    ):
        review("selfsubjectaccessreviews", "authorization.k8s.io", {})


def test_local_access_reviews_must_match_their_namespace() -> None:
    with pytest.raises(StatusError, match=r"must match metadata\.namespace"):
        review(
            "localsubjectaccessreviews", "authorization.k8s.io", {"user": "a", "resourceAttributes": {"namespace": "b"}}
        )


def test_self_subject_rules_review() -> None:
    status = review(
        "selfsubjectrulesreviews", "authorization.k8s.io", {"namespace": "ns"}, User("ann", ("system:authenticated",))
    )
    assert {"verbs": ["create"], "apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"]} in status[
        "resourceRules"
    ]
    assert status["incomplete"] is False


def test_token_review() -> None:
    assert review("tokenreviews", "authentication.k8s.io", {"token": "secret"})["user"]["username"] == "root"
    assert review("tokenreviews", "authentication.k8s.io", {"token": "nope"}) == {
        "user": {},
        "error": "invalid bearer token",
    }


def test_a_token_bound_to_a_pod_contains_its_node() -> None:
    control = access_control()
    store = control.authenticator.reader
    assert isinstance(store, SqliteStore)
    store.put("nodes", "", "n1", {"metadata": {"name": "n1", "uid": "n-1"}})
    meta = {"name": "q", "namespace": "ns", "uid": "q-1"}
    store.put("pods", "ns", "q", {"metadata": meta, "spec": {"serviceAccountName": "bot", "nodeName": "n1"}})
    for pod, node in (("q", {"node-name": ("n1",), "node-uid": ("n-1",)}), ("p", {})):
        user = authenticate(
            control, authorization=f"Bearer {issue_token(control, boundObjectRef={'kind': 'Pod', 'name': pod})}"
        )
        assert user is not None
        extra = {name.rpartition("/")[2]: value for name, value in user.extra.items()}
        assert extra["pod-name"] == (pod,)
        assert {name: value for name, value in extra.items() if name.startswith("node")} == node


def test_tokens_of_projected_volumes_are_valid_for_a_year() -> None:
    """As upstream: many clients read their token only once."""
    clock = Clock()
    control = access_control(clock)
    pod = {"kind": "Pod", "name": "p", "uid": "p-1"}
    projected, other, unbound = (
        issue_token(control, expirationSeconds=3607, boundObjectRef=pod),
        issue_token(control, expirationSeconds=3600, boundObjectRef=pod),
        issue_token(control, expirationSeconds=3607),
    )
    clock.now = NOW + timedelta(hours=2)
    assert authenticate(control, authorization=f"Bearer {projected}") is not None
    assert authenticate(control, authorization=f"Bearer {other}") is None
    assert authenticate(control, authorization=f"Bearer {unbound}") is None
    clock.now = NOW + timedelta(days=366)
    assert authenticate(control, authorization=f"Bearer {projected}") is None
