import json
from pathlib import Path
from typing import Any

import pytest

from allotment.lab.lab import Lab
from allotment.lab.pod_http import NoAnswer
from allotment.node.runtimes.images import InvalidImages

POD = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: third}
spec:
  devices:
    requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}]
    config:
    - opaque:
        driver: gpu.nvidia.com
        parameters:
          apiVersion: resource.nvidia.com/v1beta1
          kind: GpuConfig
          sharing:
            strategy: MPS
            mpsConfig: {defaultActiveThreadPercentage: 33, defaultPinnedDeviceMemoryLimit: LIMIT}
---
apiVersion: v1
kind: Pod
metadata: {name: fractal}
spec:
  resourceClaims: [{name: gpu, resourceClaimName: third}]
  containers:
  - name: app
    image: ghcr.io/castai/gpu-demo-app:latest
    ports: [{containerPort: 5000}]
    env: [{name: WIDTH, value: "64"}, {name: HEIGHT, value: "40"}, {name: GPU_WORK, value: "3.5"}]
    readinessProbe: {httpGet: {path: /healthz, port: 5000}, periodSeconds: 1}
    resources: {claims: [{name: gpu}]}
"""


def test_a_container_is_a_process_limited_to_its_share_of_the_gpu() -> None:
    with Lab("a100-40gb", runtime="process") as lab:
        lab.apply(POD.replace("LIMIT", "5Gi"))
        (pod,) = lab.wait("pod/fractal")
        stats = json.loads(lab.http_get(pod, 5000, "/stats"))
        assert (stats["device"], stats["strategy"]) == ("NVIDIA A100-SXM4-40GB", "MPS, side by side")
        assert stats["share"] == "33 % of 108 multiprocessors, 5 GiB"
        assert lab.http_get(pod, 5000, "/image.png").startswith(b"\x89PNG")
        # 3.5 s of work on the 32 multiprocessors that a picture uses.
        assert json.loads(lab.http_get(pod, 5000, "/stats"))["seconds"] > 0.9 * 3.5 / 32
        with pytest.raises(NoAnswer, match=r"expected 200 OK, found HTTP/1\.1 404 Not Found"):
            lab.http_get(pod, 5000, "/nothing")
        with pytest.raises(NoAnswer, match="fractal:81/"):
            lab.http_get(pod, 81)


def test_a_container_that_exceeds_its_memory_limit_fails_with_a_log_message() -> None:
    def restarted(pod: dict[str, Any]) -> bool:
        return any("terminated" in status["lastState"] for status in pod["status"].get("containerStatuses", ()))

    with Lab("a100-40gb", runtime="process", speed=10) as lab:
        lab.apply(POD.replace("LIMIT", "100Mi"))
        (pod,) = lab.wait("pod/fractal", until=restarted)
        ended = pod["status"]["containerStatuses"][0]["lastState"]["terminated"]
        assert ended["exitCode"] == 1


def test_a_missing_image_file_is_rejected(tmp_path: Path) -> None:
    with (
        pytest.raises(InvalidImages, match="images file not found"),
        Lab(runtime="process", images=tmp_path / "images.toml"),
    ):
        pass
