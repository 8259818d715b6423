"""Long computations end when their time is used up, and leave nothing behind that other answers would notice."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Final

import pytest

from allotment.api.cluster import Cluster
from allotment.screens.manifest_editor import EditorRequest, editor_answer
from allotment.time_limits import StoppedError, TookTooLongError, check_time, time_limit, without_time_limit
from allotment.watched.cluster import view_of

POD: Final = """apiVersion: v1
kind: Pod
metadata: {name: p%d}
spec:
  resourceClaims: [{name: gpu, resourceClaimTemplateName: t%d}]
  containers: [{name: c, image: i, resources: {claims: [{name: gpu}]}}]
"""
TEMPLATE: Final = """apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: t%d}
spec:
  spec:
    devices:
      requests:
      - name: gpu
        exactly:
          deviceClassName: gpu.nvidia.com
          selectors: [{cel: {expression: "device.attributes['gpu.nvidia.com'].productName == 'X%d'"}}]
"""
PODS: Final = "---\n".join([*(POD % (n, n) for n in range(8)), *(TEMPLATE % (n, n) for n in range(8))])


def counting() -> Callable[[], float]:
    """A clock that advances by a second each time that it is read."""
    return partial(next, map(float, count()))


def test_without_a_limit_nothing_ends() -> None:
    check_time()
    with time_limit(2, counting()):
        check_time()
    check_time()


def test_shared_values_are_computed_to_their_end() -> None:
    with time_limit(1, counting()):
        with without_time_limit():
            for _ in range(5):
                check_time()
        with pytest.raises(TookTooLongError, match="no answer within 1 seconds"):
            check_time()


def test_nothing_is_computed_for_a_server_that_has_ended() -> None:
    with time_limit(9, counting(), lambda: True), pytest.raises(StoppedError):
        check_time()
    with time_limit(9, counting(), lambda: True), without_time_limit(), pytest.raises(StoppedError):
        check_time()


@pytest.mark.parametrize(
    ("text", "checks"),
    [
        pytest.param("a: [" + "1," * 1000 + "1]", 900, id="values"),
        pytest.param('{"a": [' + "{}," * 1000 + "{}]}", 900, id="JSON"),
        pytest.param("---\n".join("kind: ConfigMap\napiVersion: v1\n" for _ in range(100)), 900, id="documents"),
        pytest.param(PODS, 2000, id="pods"),
    ],
)
def test_long_answers_check_the_time_again_and_again(text: str, checks: int) -> None:
    view, clock = view_of(Cluster.fleet("t4-4x-pcie:2")), counting()
    with time_limit(1e9, clock):
        editor_answer(view, EditorRequest(text))
    assert clock() > checks


def test_an_answer_that_was_given_up_does_not_change_later_ones() -> None:
    """The devices of a view are shared by all of its answers."""
    request = EditorRequest(PODS)
    view, clock = view_of(Cluster.fleet("t4-4x-pcie:2")), counting()
    with time_limit(1e9, clock):
        expected = editor_answer(view, request)
    total = int(clock())
    for seconds in (1, *range(total // 2, total, max(total // 24, 1))):
        with time_limit(seconds, counting()), pytest.raises(TookTooLongError):
            editor_answer(view, request)
    assert editor_answer(view, request) == expected
