import asyncio

from allotment.model.features import Features
from allotment.node import kubelet_api
from allotment.node.kubelet_features import SKIP_METRICS, kubelet_features
from allotment.node.runtimes.simulated_http import MAX_PENDING_ANSWERS, SimulatedHttpConnection, fixed_answer
from tests.unit.cluster import idle

_REQUEST = b"GET / HTTP/1.1\r\n\r\n"


def test_skipped_operations_are_metrics_of_the_node() -> None:
    counts = {("NodePrepareResources", "b.example.com"): 2, ("NodePrepareResources", "a.example.com"): 1}
    lines = kubelet_api.metrics(counts, SKIP_METRICS).decode().splitlines()
    assert lines[1:] == [
        "# TYPE dra_node_prepare_skips_total counter",
        'dra_node_prepare_skips_total{driver_name="a.example.com"} 1',
        'dra_node_prepare_skips_total{driver_name="b.example.com"} 2',
    ]


def test_kubelets_count_skipped_operations_since_1_37() -> None:
    assert kubelet_features(Features("1.36")).metrics == frozenset()
    assert kubelet_features(Features("1.37")).metrics == set(SKIP_METRICS)


def test_a_connection_answers_requests() -> None:
    async def scenario() -> bytes:
        page = SimulatedHttpConnection(fixed_answer("hello"))
        await page.write(_REQUEST)
        return await page.read()

    assert idle.run(scenario()).endswith(b"\r\n\r\nhello")


def test_a_client_that_does_not_read_is_throttled() -> None:
    async def scenario() -> None:
        page = SimulatedHttpConnection(fixed_answer("hello"))
        request = asyncio.create_task(page.write(_REQUEST * 10 * MAX_PENDING_ANSWERS))
        done, _ = await asyncio.wait([request], timeout=0.05)
        assert not done
        await page.close()
        request.cancel()

    idle.run(scenario())
