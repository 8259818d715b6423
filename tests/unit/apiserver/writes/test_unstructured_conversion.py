"""A strategic merge patch that gives a field another type is rejected in the words of Go's conversion."""

from __future__ import annotations

from typing import Any

import pytest

from allotment.apiserver.writes.unstructured_conversion import conversion_problem
from allotment.model.fields import shape_of


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"spec": {"template": {"spec": {"containers": "x"}}}}, "cannot restore slice from string"),
        ({"spec": {"template": {"spec": {"containers": {"name": "c"}}}}}, "cannot restore slice from map"),
        ({"spec": {"template": {"spec": {"containers": [1]}}}}, "cannot restore struct from: int64"),
        ({"spec": []}, "cannot restore struct from: slice"),
        ({"spec": "x"}, "cannot restore struct from: string"),
        ({"metadata": {"labels": [1]}}, "cannot restore map from slice"),
        ({"metadata": {"finalizers": [1]}}, "cannot convert int64 to string"),
        ({"spec": {"replicas": "three"}}, "unrecognized type: int32"),
        ({"spec": {"paused": "yes"}}, "unrecognized type: bool"),
        ({"spec": {"replicas": 1.5}}, "cannot convert float64 to int32"),
        ({"spec": {"replicas": 2.0, "paused": True, "selector": None}}, ""),
        ({"metadata": {"creationTimestamp": 1}}, ""),
    ],
)  # fmt: skip
def test_the_first_wrong_type_is_reported(change: Any, problem: str) -> None:
    assert conversion_problem(change, shape_of("apps/v1", "Deployment")) == problem
