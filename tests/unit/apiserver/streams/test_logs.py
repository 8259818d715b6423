from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from allotment.apiserver.http_messages import Request, Response, Streaming
from allotment.apiserver.streams import serve
from allotment.cluster.errors import StatusError
from allotment.model.trees import Tree
from tests.unit.apiserver.streams.nodes import POD, Nodes


def log(query: str, nodes: Nodes | None, pod: Tree = POD) -> tuple[Any, bytes]:
    async def read() -> tuple[Any, bytes]:
        given = await serve("log", Request("GET", "/log", query), pod, nodes)
        if isinstance(given, Streaming):
            return given, b"".join([piece async for piece in given.pieces])
        return given, b""

    return asyncio.run(read())


def test_a_log_is_plain_text() -> None:
    given, text = log("", Nodes())
    assert (given.code, given.headers) == (
        200,
        (("Cache-Control", "no-cache, private"), ("Content-Type", "text/plain")),
    )
    assert text == b"line 0\nline 1\nline 2\n"


def test_options_reach_the_node() -> None:
    nodes = Nodes()
    log("container=c&follow=true&timestamps&tailLines=5&sinceSeconds=60", nodes)
    log("sinceTime=2026-01-01T01:00:00%2B01:00&follow=false", nodes)
    assert nodes.requests == [
        ("c", True, False, True, 5, None, 60),
        ("c", False, False, False, None, datetime(2026, 1, 1, tzinfo=UTC), None),
    ]


def test_a_byte_limit_truncates_within_a_line() -> None:
    assert log("limitBytes=10", Nodes())[1] == b"line 0\nlin"
    assert log("limitBytes=7", Nodes())[1] == b"line 0\n"


def test_a_pod_without_a_node_has_no_content() -> None:
    given, _ = log("", Nodes(), {**POD, "spec": {"containers": [{"name": "c"}]}})
    assert given == Response(204, (("Cache-Control", "no-cache, private"),), b"")


def test_previous_requires_an_earlier_run() -> None:
    status = {"name": "c", "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": {}}}
    nodes = Nodes()
    with pytest.raises(StatusError, match='previous terminated container "c" in pod "web" not found'):
        log("previous=true", nodes, with_status(status))
    status["lastState"] = {"terminated": {"exitCode": 1}}
    log("previous=true", nodes, with_status(status))
    log("", nodes, with_status(status))
    assert [request[2] for request in nodes.requests] == [True, False]


def with_status(status: Tree) -> Tree:
    return {**POD, "status": {"containerStatuses": [status]}}


TWO = {
    **POD,
    "spec": {"nodeName": "n1", "initContainers": [{"name": "i"}], "containers": [{"name": "a"}, {"name": "b"}]},
}


@pytest.mark.parametrize(
    ("query", "pod", "code", "message"),
    [
        ("container=x", POD, 400, "container x is not valid for pod web"),
        ("", TWO, 400, "a container name must be specified for pod web, choose one of: [i a b]"),
        ("container=b", TWO, 400, 'container "b" in pod "web" is not available'),
        ("", with_status({"name": "c", "state": {"waiting": {"reason": "ContainerCreating"}}}), 400,
         'container "c" in pod "web" is waiting to start: ContainerCreating'),
        ("", with_status({"name": "c", "state": {"waiting": {"reason": "ImagePullBackOff"}}}), 400,
         'container "c" in pod "web" is waiting to start: trying and failing to pull image'),
        ("tailLines=x", POD, 400, 'strconv.ParseInt: parsing "x": invalid syntax'),
        ("sinceTime=yesterday", POD, 400, ('parsing time "yesterday" as "2006-01-02T15:04:05Z07:00": '
         'cannot parse "yesterday" as "2006"')),
        ("tailLines=-1", POD, 422, ('PodLogOptions "web" is invalid: tailLines: Invalid value: -1: must be greater '
         "than or equal to 0")),
        ("limitBytes=0&sinceSeconds=0", POD, 422, ('PodLogOptions "web" is invalid: [limitBytes: Invalid value: 0: '
         "must be greater than 0, sinceSeconds: Invalid value: 0: must be greater than 0]")),
    ],
)  # fmt: skip
def test_errors_match_upstream(query: str, pod: Tree, code: int, message: str) -> None:
    with pytest.raises(StatusError) as raised:
        log(query, Nodes(), pod)
    assert (raised.value.code, str(raised.value)) == (code, message)


def test_the_error_without_kubelets_names_the_node() -> None:
    with pytest.raises(StatusError, match="no kubelet answers for node n1") as raised:
        log("", None)
    assert raised.value.code == 503
