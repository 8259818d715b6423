"""Instrumentation of programs without listeners."""

from __future__ import annotations

from allotment.cluster.instrumentation import UNOBSERVED, Instrumentation


def test_gauges_are_registered_only_where_metrics_are_read() -> None:
    observed = Instrumentation()
    for instrumentation in (observed, UNOBSERVED):
        instrumentation.gauge("queue", "pods", lambda: 3.0)
    assert observed.gauges["queue", "pods"]() == 3.0
    assert not UNOBSERVED.gauges
