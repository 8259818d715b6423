"""``allot explain``, ``free`` and ``snapshot`` on a running lab."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import allotment
from allotment.model.loading import load_paths
from tests.polling import wait_until
from tests.unit.cli.conftest import Allot
from tests.unit.cli.describe.test_command import TRAINING
from tests.unit.cli.test_wait import GREEDY

BEGINNERS = Path(__file__).parents[2] / "corpus" / "beginners"
WEB = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      resourceClaims: [{name: gpu, resourceClaimTemplateName: one-gpu}]
      containers: [{name: c, image: busybox, command: [sleep, infinity], resources: {claims: [{name: gpu}]}}]
"""
SECRET = """\
apiVersion: v1
kind: Secret
metadata: {name: hidden}
stringData: {password: tiger}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: hidden}
data: {password: tiger}
"""


def flat(text: str) -> str:
    """The text without its line breaks."""
    return " ".join(text.split())


def test_a_pending_pod_is_explained(live: Allot, namespace: str) -> None:
    live("apply", "-f", "-", stdin=GREEDY)
    for word in ("greedy", "pod/greedy", "pod greedy", f"{namespace}/greedy", "nine", "claim/nine"):
        ran = live("explain", *word.split())
        assert ran.code == 1, word
        assert flat(ran.out).startswith(f"Pod {namespace}/greedy does not fit: "), word
    data = json.loads(live("explain", "greedy", "-o", "json").out)
    assert [answer["name"] for answer in data["answers"]] == [f"{namespace}/greedy"]
    assert live("explain", "--context", "allotment", "greedy").code == 1


def test_running_pod_is_printed_with_its_devices(live: Allot, lab: allotment.Lab, namespace: str) -> None:
    lab.apply(TRAINING, namespace=namespace)
    lab.wait("pod/train", namespace=namespace)
    ran = live("explain", "pod/train")
    assert ran.code == 0
    assert flat(ran.out).startswith(f"Pod {namespace}/train is on node t4-4x-pcie-1 claim ")
    assert "(Tesla T4)" in ran.out
    (claim,) = lab.list("resourceclaim", namespace=namespace)
    held = flat(live("explain", f"claim/{claim['metadata']['name']}").out)
    assert "has its devices" in held
    assert "the claim is reserved for pods/train" in held
    assert f"{namespace}/{claim['metadata']['name']}" in live("free").out


def test_pod_whose_devices_cannot_be_prepared_has_the_error_of_the_driver(
    live: Allot, lab: allotment.Lab, namespace: str
) -> None:
    misspelled = """
      config:
      - requests: [gpu]
        opaque:
          driver: gpu.nvidia.com
          parameters:
            apiVersion: resource.nvidia.com/v1beta1
            kind: GpuConfig
            sharing: {strategy: Timeslicing}
"""
    manifest = (BEGINNERS / "claim-without-container.yaml").read_text().replace("\n---", misspelled + "---")
    lab.apply(manifest, namespace=namespace)
    lab.wait("pod/trainer", until=lambda pod: bool(pod["spec"].get("nodeName")), namespace=namespace)
    wait_until(lambda: "cannot start" in live("explain", "pod/trainer").out)
    ran = live("explain", "pod/trainer")
    assert ran.code == 1
    printed = flat(ran.out)
    assert printed.startswith(f"Pod {namespace}/trainer is on node t4-4x-pcie-1, but does not start ")
    assert printed.endswith(" next: allot doctor")
    assert "the pod cannot start, because its devices cannot be prepared: " in printed
    assert 'did you mean "TimeSlicing"?' in printed
    assert "Correct the parameters in the claim's config; allot check names the field." in printed


def test_pending_pods_of_a_workload_come_first(live: Allot, lab: allotment.Lab, namespace: str) -> None:
    lab.apply(TRAINING.partition("---")[0] + "---\n" + WEB.replace("replicas: 2", "replicas: 5"), namespace=namespace)

    def placed() -> int:
        return sum(bool(pod["spec"].get("nodeName")) for pod in lab.list("pod", namespace=namespace))

    wait_until(lambda: placed() == 4, "four of the five pods are placed")
    answers = json.loads(live("explain", "deploy/web", "-o", "json").out)["answers"]
    assert [answer["outcome"] for answer in answers] == ["refused", "fits", "fits", "fits", "fits"]


def test_a_workload_is_explained_by_its_pods(live: Allot, lab: allotment.Lab, namespace: str) -> None:
    lab.apply(TRAINING.partition("---")[0] + "---\n" + WEB, namespace=namespace)
    lab.wait("deployment/web", namespace=namespace)
    ran = live("explain", "deploy/web")
    assert ran.code == 0
    assert flat(ran.out).count(" is on node t4-4x-pcie-1") == 2
    missing = live("explain", "deploy/wbe")
    assert (missing.code, missing.out) == (2, "")
    assert "no deploy 'wbe'" in missing.err
    assert "did you mean web?" in missing.err
    as_pod = live("explain", "pod/web")
    assert as_pod.code == 2
    assert "did you mean deploy/web?" in as_pod.err


def test_a_name_without_a_kind_suggests_the_workload(live: Allot, lab: allotment.Lab, namespace: str) -> None:
    paused = WEB.replace("replicas: 2", "replicas: 2\n  paused: true").replace("web", "paused")
    lab.apply(TRAINING.partition("---")[0] + "---\n" + WEB + "---\n" + paused, namespace=namespace)
    lab.wait("deployment/web", namespace=namespace)
    for name in ("web", "paused"):
        ran = live("explain", name)
        assert ran.code == 2
        assert f"pod or claim not found: '{name}'\n  allot explain deploy/{name}" in ran.err
        assert live("explain", *ran.err.split("allot explain ")[1].split()).code == 0, name


def test_a_workload_without_pods_is_evaluated_from_its_template(
    live: Allot, lab: allotment.Lab, namespace: str
) -> None:
    paused = WEB.replace("replicas: 2", "replicas: 5\n  paused: true")
    lab.apply(TRAINING.partition("---")[0] + "---\n" + paused, namespace=namespace)
    data = json.loads(live("explain", "deploy/web", "-o", "json").out)
    assert [(answer["owner"], answer["outcome"]) for answer in data["answers"]] == [
        (f"Deployment {namespace}/web", outcome) for outcome in ("fits", "fits", "fits", "fits", "refused")
    ]


def test_manifests_are_evaluated_on_the_running_cluster(live: Allot) -> None:
    ran = live("explain", "-f", "-", "--context", "allotment", stdin=GREEDY)
    assert ran.code == 1
    assert "9 devices requested" in " ".join(ran.out.split())


def test_a_class_is_evaluated_on_the_running_cluster(live: Allot) -> None:
    selecting = """\
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: mine}
spec: {selectors: [{cel: {expression: device.driver == 'gpu.nvidia.com'}}]}
"""
    ran = live("explain", "-f", "-", "--context", "allotment", stdin=selecting)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("DeviceClass mine selects 4 of 4 devices\n")


def test_an_unknown_name_is_an_error(live: Allot) -> None:
    ran = live("explain", "missing")
    assert ran.code == 2
    assert "pod or claim not found: 'missing'" in ran.err or "nothing to explain" in ran.err
    assert live("explain", "pod/missing").code == 2


def test_a_watch_prints_each_changed_result(lab: allotment.Lab, namespace: str) -> None:
    lab.apply(GREEDY, namespace=namespace)
    process = subprocess.Popen(
        [sys.executable, "-m", "allotment.cli.main", "explain", "pod/greedy", "-n", namespace, "--watch"],
        env={**os.environ, "KUBECONFIG": str(lab.kubeconfig)}, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        assert "does not fit" in process.stdout.readline()
        lab.delete("pod", "greedy", namespace=namespace)
        for line in process.stdout:
            if line.startswith("--- "):
                break
        assert "no pod 'greedy'" in process.stdout.readline()
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def test_watch_ends_when_named_object_is_placed(live: Allot, lab: allotment.Lab, namespace: str) -> None:
    lab.apply(TRAINING.partition("---")[0] + "---\n" + WEB, namespace=namespace)
    lab.wait("deployment/web", namespace=namespace)
    ran = live("explain", "deploy/web", "--watch")
    assert ran.code == 0
    assert ran.out.startswith("both pods are placed\n")
    (pod, _) = lab.list("pod", namespace=namespace)
    assert "is on node" in live("explain", f"pod/{pod['metadata']['name']}", "--watch").out


def test_wrong_namespace_suggests_the_right_one(live: Allot, namespace: str) -> None:
    live("apply", "-f", "-", stdin=f"{WEB}---\n{GREEDY}")
    for subject, word in (("pod/greedy", "pod"), ("deploy/web", "deploy")):
        name = subject.partition("/")[2]
        ran = live("explain", subject, "-n", "elsewhere")
        assert (ran.code, ran.out) == (2, "")
        assert f"no {word} '{name}' in namespace elsewhere\n  it exists in namespace " in ran.err
        assert namespace in ran.err


def test_kind_without_pods_is_reported(live: Allot) -> None:
    assert "svc is not a kind with pods; use pod/NAME" in " ".join(live("explain", "svc/web").err.split())


def test_files_cannot_be_watched(allot: Allot) -> None:
    ran = allot("explain", "--watch", "--fleet", "t4")
    assert (ran.code, ran.out) == (2, "")
    assert "--watch" in ran.err


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_a_snapshot_gives_the_same_results_as_the_cluster(
    live: Allot, namespace: str, tmp_path: Path, form: str
) -> None:
    live("apply", "-f", "-", stdin="---\n".join([GREEDY, SECRET]))
    live("wait", "pod/greedy", "--for=jsonpath={.status.conditions[0].message}")
    file = tmp_path / f"snapshot.{form}"
    saved = live("snapshot", "-n", namespace, "-o", str(file))
    assert saved.code == 0
    assert "1 node, 1 slice, 1 claim, 1 pod" in saved.err
    of_file = live("explain", "--cluster", str(file), "greedy").out.replace(f" --cluster {file}", "")
    assert of_file == live("explain", "greedy").out
    text = file.read_text()
    assert "tiger" not in text
    assert not {"Secret", "ConfigMap"} & {document.kind for document in load_paths([str(file)]).documents}
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_redacted_snapshot_gives_the_same_results_with_pseudonyms(
    live: Allot, namespace: str, tmp_path: Path
) -> None:
    live("apply", "-f", "-", stdin="---\n".join([GREEDY, TRAINING.replace("busybox", "registry.example/private:1")]))
    live("wait", "pod/greedy", "--for=jsonpath={.status.conditions[0].message}")
    live("wait", "pod/train", "--for=condition=Ready")
    file = tmp_path / "snapshot.yaml"
    assert live("snapshot", "--redact", "-n", namespace, "-o", str(file)).code == 0
    text = file.read_text()
    for private in ("greedy", "train", "private", "t4-4x-pcie-1", "busybox", namespace, "nine"):
        assert private not in text, private
    given = json.loads(live("explain", "pod/greedy", "-o", "json").out)["answers"]
    other = json.loads(live("explain", "--cluster", str(file), "-o", "json").out)["answers"]
    assert [answer["reasons"]["headline"]["code"] for answer in given] == [
        answer["reasons"]["headline"]["code"] for answer in other
    ]
    assert "3 of 4 devices are free" in live("free", "--cluster", str(file)).out


def test_without_a_file_a_snapshot_is_written_to_standard_output(live: Allot, tmp_path: Path) -> None:
    assert "kind: List" in live("snapshot").out
    assert live("snapshot", "-o", str(tmp_path)).code == 2
    assert live("snapshot", "-o", str(tmp_path / "never" / "x.yaml")).code == 2


def test_snapshot_to_a_pipe_or_device_does_not_replace_it(live: Allot, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, 1 << 20)  # not read while it is written
    try:
        assert live("snapshot", "-o", str(pipe)).code == 0
        assert pipe.is_fifo()
        assert os.read(reader, 100).startswith(b"# A snapshot of Kubernetes")
    finally:
        os.close(reader)


def test_snapshot_follows_symbolic_link(live: Allot, tmp_path: Path) -> None:
    link = tmp_path / "latest.yaml"
    link.symlink_to(tmp_path / "monday.yaml")
    assert live("snapshot", "-o", str(link)).code == 0
    assert link.is_symlink()
    assert "kind: List" in (tmp_path / "monday.yaml").read_text()


def test_truncated_snapshot_is_rejected(live: Allot, tmp_path: Path) -> None:
    file = tmp_path / "snapshot.yaml"
    text = live("snapshot").out
    file.write_text(text[: text.index("- apiVersion: v1", text.index("items:") + 40)])
    for command in ("free", "explain"):
        ran = live(command, "--cluster", str(file))
        assert (ran.code, ran.out) == (2, "")
        assert ran.err.startswith(f"{file}: cut-off: the snapshot is truncated")


def test_a_running_pod_that_got_no_device_has_a_note_and_others_do_not(
    live: Allot, lab: allotment.Lab, namespace: str
) -> None:
    """Kubernetes starts a container without a device if it names a request that the claim does not have."""
    manifest = TRAINING.replace("claims: [{name: gpu}]", "claims: [{name: gpu, request: gpu0}]")
    assert manifest != TRAINING
    lab.apply(manifest, namespace=namespace)
    lab.wait("pod/train", namespace=namespace)
    lab.apply(TRAINING.replace("name: train,", "name: other,"), namespace=namespace)
    lab.wait("pod/other", namespace=namespace)
    assert "refers to request gpu0" in flat(live("explain", "pod/train").out)
    assert "refers to request gpu0" not in flat(live("explain", "pod/other").out)
