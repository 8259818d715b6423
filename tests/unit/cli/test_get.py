"""``allot get`` on a lab: tables, output formats, missing objects, watches."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

import allotment
from tests.unit.cli.conftest import Allot

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: %s, labels: {app: web}}
spec: {containers: [{name: main, image: "busybox:1", command: [sleep, infinity]}]}
"""


@pytest.fixture
def pods(lab: allotment.Lab, namespace: str) -> None:
    """Two running pods."""
    lab.apply([POD % "one", POD % "two"], namespace=namespace)
    lab.wait("pod/one", "pod/two", namespace=namespace)


def columns(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_a_table_has_the_servers_columns(live: Allot, pods: None) -> None:
    shown = columns(live("get", "pods").out)
    assert shown[0] == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert [row[:4] for row in shown[1:]] == [["one", "1/1", "Running", "0"], ["two", "1/1", "Running", "0"]]
    assert "NODE" in live("get", "po", "-o", "wide").out.splitlines()[0]
    everywhere = columns(live("get", "pods", "-A").out)
    assert everywhere[0][:2] == ["NAMESPACE", "NAME"]
    assert live("get", "pods", "--show-labels", "--no-headers", "one").out.split()[-1] == "app=web"


def test_several_kinds_are_several_tables_with_full_names(live: Allot, pods: None) -> None:
    tables = live("get", "pods,configmaps").out.split("\n\n")
    assert [table.split()[0] for table in tables] == ["NAME", "NAME"]
    assert columns(tables[0])[1][0] == "pod/one"
    assert columns(tables[1])[1][0] == "configmap/kube-root-ca.crt"
    named = live("get", "pod/two", "cm/kube-root-ca.crt").out
    assert "pod/two" in named
    assert "pod/one" not in named


@pytest.mark.parametrize("word", ["pod", "pods", "po", "Pod", "PODS", "pods.v1.", "pods/"])
def test_kinds_have_many_names(live: Allot, pods: None, word: str) -> None:
    ran = live("get", word, "one", "-o", "name")
    if word == "pods/":
        assert "single resource and name" in ran.err or "separate argument" in ran.err
        assert ran.code == 1
    else:
        assert ran.out == "pod/one\n"


def test_objects_are_printed_in_every_format(live: Allot, pods: None, namespace: str) -> None:
    tree = json.loads(live("get", "pod", "one", "-o", "json").out)
    assert tree["metadata"]["name"] == "one"
    assert "managedFields" not in tree["metadata"]
    assert list(tree["metadata"]) == sorted(tree["metadata"])
    several = json.loads(live("get", "pods", "-o", "json").out)
    assert (several["kind"], len(several["items"])) == ("List", 2)
    assert live("get", "pod", "one", "-o", "yaml").out.startswith("apiVersion: v1\nkind: Pod\nmetadata:\n")
    assert live("get", "pods", "-o", "name").out == "pod/one\npod/two\n"
    path = 'jsonpath={range .items[*]}{.metadata.name}={.spec.containers[0].image}{"\\n"}{end}'
    assert live("get", "pods", "-o", path).out == "one=busybox:1\ntwo=busybox:1\n"


def test_selectors_filter_objects(live: Allot, pods: None) -> None:
    assert (
        live("get", "pods", "-l", "app=web", "--field-selector", "metadata.name=two", "-o", "name").out == "pod/two\n"
    )
    assert live("get", "pods", "one", "-l", "app=web").code == 1
    refused = live("get", "pods", "--field-selector", "spec.colour=red")
    assert (refused.code, refused.out) == (1, "")
    assert refused.err.startswith("Error from server (BadRequest): ")


def test_not_found_errors_match_kubectl(live: Allot, pods: None, namespace: str) -> None:
    ran = live("get", "pod", "one", "three")
    assert ran.code == 1
    assert columns(ran.out)[1][0] == "one"
    assert ran.err == 'Error from server (NotFound): pods "three" not found\n'
    assert live("get", "pod", "three", "--ignore-not-found") == (0, "", "")
    nothing = live("get", "jobs")
    assert nothing == (0, "", f"No resources found in {namespace} namespace.\n")
    assert live("get", "persistentvolumes").err == "No resources found\n"
    unknown = live("get", "pdos")
    assert unknown.code == 1
    assert unknown.err == 'error: the server doesn\'t have a resource type "pdos"\n  did you mean pods?\n'
    assert "resourceclaims" in live("get", "claims").err
    assert "unable to match a printer" in live("get", "pods", "-o", "xml").err
    assert "error parsing jsonpath" in live("get", "pods", "-o", "jsonpath={.a").err


def test_a_watch_shows_changes_until_it_is_stopped(lab: allotment.Lab, namespace: str, pods: None) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "allotment.cli.main", "get", "pods", "-w", "-n", namespace],
        env={**os.environ, "KUBECONFIG": str(lab.kubeconfig)}, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        assert process.stdout.readline().split()[0] == "NAME"
        assert [process.stdout.readline().split()[0] for _ in range(2)] == ["one", "two"]
        lab.apply(POD % "three", namespace=namespace)
        first = process.stdout.readline()
        assert first.split()[:3] == ["three", "0/1", "Pending"]
        while "Running" not in process.stdout.readline():
            pass
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()
