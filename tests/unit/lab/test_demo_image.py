import json

import pytest

from allotment.lab.lab import Lab
from allotment.lab.pod_http import NoAnswer
from tests.unit.lab.test_runtimes import POD


def test_the_demo_runs_in_a_simulated_container_within_its_share() -> None:
    with Lab("a100-40gb", speed=10) as lab:
        lab.apply(POD.replace("LIMIT", "5Gi"))
        (pod,) = lab.wait("pod/fractal")
        stats = json.loads(lab.http_get(pod, 5000, "/stats"))
        assert stats["backend"] == "simulated"
        assert (stats["strategy"], stats["share"]) == ("MPS, side by side", "33 % of 108 multiprocessors, 5 GiB")
        assert lab.http_get(pod, 5000, "/image.png").startswith(b"\x89PNG")
        assert b"<img" in lab.http_get(pod, 5000)
        with pytest.raises(NoAnswer, match="404 Not Found"):
            lab.http_get(pod, 5000, "/nothing")


def test_a_simulated_demo_reports_insufficient_memory_on_its_page() -> None:
    with Lab("a100-40gb") as lab:
        lab.apply(POD.replace("LIMIT", "100Mi"))
        (pod,) = lab.wait("pod/fractal")
        with pytest.raises(NoAnswer, match="503 Service Unavailable"):
            lab.http_get(pod, 5000, "/image.png")
