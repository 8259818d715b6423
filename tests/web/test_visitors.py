"""In a cluster, visitors see what their own tokens may read: no response contains a name of another namespace."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from allotment.api.cluster import Cluster
from allotment.api.free import free
from allotment.cluster.remote.kubeconfig import target
from allotment.lab.lab import Lab
from allotment.screens.visibility import VisitorRights, visible_to
from allotment.watched.cluster import WatchedCluster
from allotment.web.options import WebOptions
from allotment.web.problems import ProblemError
from allotment.web.visitors import VisitorAccess, expiry_of, kinds_listed
from tests.web.two_teams import CLUSTER_KINDS, IN_USE, MANIFESTS, SECRETS, is_complete, leaks
from tests.web.visitors import PageServer, Visitors, page_server, rules, wait_for


class TwoTeams(NamedTuple):
    """A lab in which two teams use devices, and a page for visitors."""

    lab: Lab
    server: PageServer
    visitors: Visitors
    watched: WatchedCluster


@pytest.fixture(scope="module")
def teams() -> Iterator[TwoTeams]:
    with Lab("t4-4x-pcie:2", tls=True, speed=20) as lab:
        for manifests in MANIFESTS:
            lab.apply(manifests)
        for namespace, pods in (("team-a", ("lion-0", "lion-1")), ("team-b", ("zebra-0", "zebra-1", "zebra-2"))):
            lab.wait(*(f"pod/{pod}" for pod in pods), namespace=namespace, timeout=120)
        watched = WatchedCluster.of(Cluster.lab(lab), is_lab=False)
        with page_server(watched, WebOptions(in_cluster=True)) as server:
            wait_for(watched, is_complete)
            yield TwoTeams(lab, server, Visitors(target([lab.kubeconfig])), watched)


@pytest.fixture(scope="module")
def of_team_a(teams: TwoTeams) -> str:
    """The token of a user with the right to read one namespace."""
    return teams.visitors.add("one-namespace", rules(CLUSTER_KINDS), {"team-a": rules()})


def test_no_response_contains_a_name_of_another_namespace(teams: TwoTeams, of_team_a: str) -> None:
    assert leaks(teams.server, teams.watched.view(), of_team_a) == []


def test_groups_and_trials_contain_none_either(teams: TwoTeams, of_team_a: str) -> None:
    groups = teams.server.send("/pending", of_team_a).data["groups"]
    assert [group["first"] for group in groups] == ["team-a/tiger-0"]
    for group in groups:
        replies = [teams.server.send(f"/pending/{group['id']}", of_team_a)]
        for remedy in replies[0].data.get("remedies", []):
            trial = {"group": group["id"], "pod": group["first"], "remedy": remedy["id"]}
            replies.append(teams.server.send("/try", of_team_a, trial))
        assert not any(secret in reply.everything for reply in replies for secret in SECRETS)


def test_devices_of_others_are_in_use_and_their_users_are_not_named(teams: TwoTeams, of_team_a: str) -> None:
    everyone = teams.watched.view().free
    seen = teams.server.send("/map", of_team_a).data
    in_use = [at for node in seen["nodes"] for at in node.get("states", {}).get("in-use", ())]
    assert len(in_use) == everyone.count("in-use") == IN_USE
    named = {holder["namespace"] for holder in seen["holders"] if holder["namespace"].startswith("team")}
    assert named == {"team-a"}


def test_the_report_for_a_visitor_is_that_of_the_objects_that_he_sees(teams: TwoTeams) -> None:
    rights = VisitorRights(frozenset({"team-a"}), frozenset({*CLUSTER_KINDS, "Namespace"}))
    shown = visible_to(teams.watched.view(), rights)
    assert shown.devices is not None  # not computed again
    assert shown.free.to_dict() == free(shown.cluster).to_dict()
    assert shown.inputs.features == shown.cluster.features


def test_objects_of_another_namespace_do_not_exist(teams: TwoTeams, of_team_a: str) -> None:
    for path in ("/objects/pod/team-b/zebra-0", "/objects/pod/team-b/no-such-pod"):
        reply = teams.server.send(path, of_team_a)
        assert reply.status == 404
        assert b"cannot" not in reply.body


def test_an_administrator_sees_everything(teams: TwoTeams) -> None:
    token = teams.visitors.add("admin", [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}], {})
    firsts = {group["first"] for group in teams.server.send("/pending", token).data["groups"]}
    assert firsts == {"team-a/tiger-0", "team-b/okapi-0"}


def test_a_user_without_rights_sees_no_device(teams: TwoTeams) -> None:
    token = teams.visitors.add("nobody", [], {})
    reply = teams.server.send("/objects", token)
    assert not any(secret in reply.everything for secret in (*SECRETS, b"team-a", b"lion", b"t4-4x"))
    problem = teams.server.send("/map", token)
    assert problem.status == 400
    assert "cannot answer without" in problem.data["detail"]


def test_a_kind_that_may_not_be_listed_in_a_namespace_is_not_shown_there(teams: TwoTeams) -> None:
    needed = ["Pod", "ResourceClaim", "ResourceClaimTemplate"]
    token = teams.visitors.add("no-events", rules(CLUSTER_KINDS), {"team-a": rules(needed)})
    page = teams.server.send("/objects/pod/team-a/tiger-0", token).data
    assert page["name"] == "tiger-0"
    assert not [entry for entry in page.get("timeline", []) if entry["source"].startswith("default-scheduler")]


def test_new_rights_and_lost_ones_take_effect(teams: TwoTeams) -> None:
    token = teams.visitors.add("promoted", rules(CLUSTER_KINDS), {"team-a": rules()})
    assert b"zebra" not in teams.server.send("/map", token).body
    teams.lab.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "later"}})  # rights are read again
    teams.visitors.add("promoted", rules(CLUSTER_KINDS), {"team-a": rules(), "team-b": rules(), "later": rules()})
    while b"later" not in json.dumps([str(key) for _, key in teams.watched.view().objects]).encode():
        pass
    assert b"zebra" in teams.server.send("/map", token).body


@pytest.mark.parametrize("token", ["", "x", "a.b.c", "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZG1pbiJ9.", "x" * 20_000, "é"])
def test_unknown_tokens_are_rejected(teams: TwoTeams, token: str) -> None:
    reply = teams.server.send("/map", "", None, **({"Authorization": f"Bearer {token}"} if token else {}))
    assert reply.status in (400, 401)
    assert b"t4-4x" not in reply.body


def test_a_token_that_expires_is_rejected_from_then_on(teams: TwoTeams, of_team_a: str) -> None:
    cluster = teams.watched.target
    assert cluster is not None
    now = [expiry_of(of_team_a) - 1]
    access, view = VisitorAccess(cluster, lambda: now[0]), teams.watched.view()
    assert asyncio.run(access.rights(of_team_a, view)).namespaces == frozenset({"team-a"})
    now[0] += 1
    with pytest.raises(ProblemError, match="expired"):
        asyncio.run(access.rights(of_team_a, view))


def test_while_the_cluster_is_away_known_visitors_keep_their_rights_for_a_short_time(
    teams: TwoTeams, of_team_a: str
) -> None:
    cluster, now = teams.watched.target, [expiry_of(of_team_a) - 1000]
    assert cluster is not None
    access, view = VisitorAccess(cluster, lambda: now[0]), teams.watched.view()
    asyncio.run(access.rights(of_team_a, view))
    access._target = cluster._replace(server="https://127.0.0.1:1")
    now[0] += 60
    assert asyncio.run(access.rights(of_team_a, view)).namespaces == frozenset({"team-a"})
    now[0] += 120
    with pytest.raises(ProblemError, match="cannot be verified") as caught:
        asyncio.run(access.rights(of_team_a, view))
    assert caught.value.problem.status == 503


def test_the_servers_own_rights_are_never_used(teams: TwoTeams) -> None:
    """The lab's administrator is authenticated by a certificate, which requests for a visitor must not present."""
    for path in ("/map", "/pending", "/api/v1/free", "/objects"):
        assert teams.server.send(path, "invalid").status == 401


def test_a_token_can_be_typed_in(teams: TwoTeams, of_team_a: str) -> None:
    reply = teams.server.send("/login", "", {"token": of_team_a})
    assert reply.status == 204
    cookie = reply.headers["set-cookie"]
    assert cookie.startswith("allotment-token=")
    assert "HttpOnly" in cookie
    assert teams.server.send("/map", "", None, Cookie=cookie.partition(";")[0]).status == 200
    assert teams.server.send("/login", "", {"token": "invalid"}).status == 401


def test_the_page_in_a_cluster_is_read_only(teams: TwoTeams, of_team_a: str) -> None:
    reply = teams.server.send("/lab/apply", of_team_a, {"text": "kind: Pod"})
    assert (reply.status, reply.data["title"]) == (403, "Not allowed")


def test_visitors_of_a_lab_cannot_change_it_with_the_rights_of_the_server(teams: TwoTeams, of_team_a: str) -> None:
    watched = WatchedCluster.of(Cluster.lab(teams.lab), is_lab=True)
    with page_server(watched, WebOptions(in_cluster=True)) as server:
        wait_for(watched, is_complete)
        victim = {"kind": "pod", "name": "zebra-0", "namespace": "team-b"}
        assert server.send("/lab/delete", of_team_a, victim).status == 403
        reply = server.send("/history", of_team_a)
        assert not any(secret in reply.everything for secret in SECRETS)


def test_kinds_that_rules_allow_to_list() -> None:
    status = {
        "resourceRules": [
            {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods", "nodes"]},
            {"verbs": ["get"], "apiGroups": [""], "resources": ["events"]},
            {"verbs": ["*"], "apiGroups": ["resource.k8s.io"], "resources": ["*"], "resourceNames": ["mine"]},
            {"verbs": ["list"], "apiGroups": ["*"], "resources": ["resourceclaims"]},
        ]
    }
    assert kinds_listed(status) == {"Pod", "Node", "ResourceClaim"}
    assert kinds_listed({}) == kinds_listed({"resourceRules": None}) == frozenset()
