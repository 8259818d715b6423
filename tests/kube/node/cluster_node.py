"""The node: a kubelet and a containerd with a real control plane, in the namespaces created for them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from allotment.lab import certificates
from allotment.model.trees import Tree
from bench.real_kube import ApiServer, plane
from tests.clients.tools import FOLDER as CLIENTS
from tests.kube.node import images, isolation
from tests.polling import wait_until

NODE: Final = "worker"
KUBELET: Final = Path("/var/lib/kubelet")
CDI: Final = Path("/var/run/cdi")
_SOCKET: Final = "/run/containerd/containerd.sock"
_RUNTIME: Final = """\
version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.nri.v1.nri"]
[grpc]
  address = "{socket}"
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "{pause}"
[plugins."io.containerd.cri.v1.runtime"]
  enable_cdi = true
  restrict_oom_score_adj = true  # without CAP_SYS_RESOURCE, scores can only be raised
  cdi_spec_dirs = ["{cdi}"]
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["{plugins}"]
    conf_dir = "{folder}/cni"
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      SystemdCgroup = false
"""


class Node:
    """A cluster with one node, and the commands that inspect both."""

    def __init__(self, kube: ApiServer, folder: Path, programs: Path) -> None:
        self.kube = kube
        self.folder = folder
        self._programs = programs

    def state(self) -> str:
        """The state of the cluster and the ends of the logs, for a failure report."""
        commands = (
            ("kubectl", "get", "pods,resourceclaims,resourceslices", "-A", "-o", "wide"),
            ("kubectl", "get", "events", "-A", "--sort-by=.lastTimestamp"),
        )
        outputs = [self.run_unchecked(*arguments)[0] for arguments in commands]
        outputs += [f"{name}: {tail}" for name, tail in self.kube.tails().items() if name in ("kubelet", "containerd")]
        return "\n".join(outputs)

    def allot(self, *arguments: str) -> str:
        """The output of ``allot``."""
        return self.run(sys.executable, "-m", "allotment.cli.main", *arguments)

    def wait_for(self, what: Callable[[], Any] | str, true: Callable[[], Any]) -> Any:
        """Wait until a condition holds and return its value; the error at the timeout shows the node's state."""
        return wait_until(true, what, 300)

    def kubectl(self, *arguments: str, input: str = "") -> str:
        """The output of kubectl; RuntimeError with its error output when it fails."""
        return self.run("kubectl", *arguments, input=input)

    def run(self, *command: str, input: str = "") -> str:
        """The output of a program with the administrator's kubeconfig; RuntimeError when it fails."""
        output, status = self.run_unchecked(*command, input=input)
        if status:
            raise RuntimeError(f"{' '.join(command)}: exit status {status}\n{output}")
        return output

    def run_unchecked(self, *command: str, input: str = "") -> tuple[str, int]:
        """The output and error output of a program, and its exit status."""
        environment = {"PATH": f"{CLIENTS}:{self._programs}:{_path()}", "KUBECONFIG": str(self.kube.kubeconfig),
                       "HOME": str(self.folder), "COLUMNS": "80"}  # fmt: skip
        done = subprocess.run(
            command, input=input, capture_output=True, text=True, check=False, env=environment, timeout=600
        )
        return (done.stdout + done.stderr if done.returncode else done.stdout), done.returncode

    def apply(self, *objects: Tree) -> None:
        """Create or update the objects in the cluster."""
        self.kubectl("apply", "-f", "-", input="\n---\n".join(map(json.dumps, objects)))

    def get(self, *arguments: str) -> Tree:
        """Get an object or a list."""
        found: Tree = json.loads(self.kubectl("get", *arguments, "-o", "json"))
        return found

    def start_kubelet(self) -> None:
        """Start the kubelet, also after it was killed."""
        self.kube.start(
            "kubelet", f"--config={self.folder}/kubelet.json", f"--kubeconfig={self.folder}/kubelet.kubeconfig",
            f"--root-dir={KUBELET}", f"--hostname-override={NODE}", f"--node-ip={isolation.ADDRESS}", "--v=2",
            command=[str(self._programs / "kubelet")],
        )  # fmt: skip


@contextmanager
def running_node(
    folder: Path, programs: Mapping[str, str], own: Path, group: str, archives: Sequence[Path]
) -> Iterator[Node]:
    """Run the node until the context ends. ``programs``: the control plane's; ``own``: the folder of the node's;
    ``group``: its control group; ``archives``: the images that it gets.

    It must run in namespaces that :func:`tests.kube.node.isolation.set_up` prepared.
    """
    authority, server = certificates.serving(folder / "kubelets", datetime.now(UTC), [isolation.ADDRESS])
    caller = certificates.issue(folder / "kubelets", "kube-apiserver", ("system:masters",), datetime.now(UTC))
    flags = (
        "--bind-address=0.0.0.0", f"--advertise-address={isolation.ADDRESS}",
        "--enable-admission-plugins=NodeRestriction", "--kubelet-preferred-address-types=InternalIP",
        f"--kubelet-certificate-authority={authority}", f"--kubelet-client-certificate={caller.certificate}",
        f"--kubelet-client-key={caller.key}",
    )  # fmt: skip
    with plane(
        dict(programs), *flags, controllers="*,node-lifecycle-controller", names=[isolation.SERVICE, isolation.ADDRESS]
    ) as kube:
        isolation.forward_service(kube.server.port)
        node = Node(kube, folder, own)
        _start_runtime(node, own, archives)
        _configure_kubelet(node, group, authority, server)
        node.start_kubelet()
        node.kubectl("wait", "--for=create", f"node/{NODE}", "--timeout=300s")
        node.kubectl("wait", "--for=condition=Ready", f"node/{NODE}", "--timeout=300s")
        yield node


def _start_runtime(node: Node, own: Path, archives: Sequence[Path]) -> None:
    (node.folder / "cni").mkdir()
    range_ = {"type": "host-local", "ranges": [[{"subnet": "10.244.0.0/24", "rangeStart": "10.244.0.10"}]],
              "routes": [{"dst": "0.0.0.0/0"}]}  # fmt: skip
    bridge = {"type": "bridge", "bridge": "cni0", "isGateway": True, "hairpinMode": True, "ipam": range_}
    network = {"cniVersion": "1.0.0", "name": "pods", "plugins": [bridge]}
    (node.folder / "cni" / "pods.conflist").write_text(json.dumps(network))
    config = node.folder / "containerd.toml"
    config.write_text(
        _RUNTIME.format(socket=_SOCKET, pause=images.BASE, cdi=CDI, plugins=isolation.PLUGINS, folder=node.folder)
    )
    path = {"PATH": f"{own}:{_path()}"}
    node.kube.start("containerd", "--config", str(config), command=[str(own / "containerd")], environment=path)
    ctr = ("ctr", "--address", _SOCKET, "--namespace", "k8s.io")
    wait_until(lambda: node.run_unchecked(*ctr, "version")[1] == 0, lambda: node.kube.tails()["containerd"], 300)
    for archive in archives:
        node.run(*ctr, "images", "import", str(archive))


def _configure_kubelet(node: Node, group: str, authority: Path, server: certificates.Identity) -> None:
    me = certificates.issue(node.kube.folder / "pki", f"system:node:{NODE}", ("system:nodes",), datetime.now(UTC))
    options = {
        "apiVersion": "v1", "kind": "Config", "current-context": "node",
        "clusters": [{"name": "node", "cluster": {
            "server": node.kube.server.url, "certificate-authority": str(node.kube.authority)}}],
        "users": [{"name": "node", "user": {
            "client-certificate": str(me.certificate), "client-key": str(me.key)}}],
        "contexts": [{"name": "node", "context": {"cluster": "node", "user": "node"}}],
    }  # fmt: skip
    (node.folder / "kubelet.kubeconfig").write_text(json.dumps(options))
    config = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": f"unix://{_SOCKET}", "cgroupDriver": "cgroupfs", "cgroupRoot": f"/{group}",
        "failCgroupV1": False, "failSwapOn": False, "enforceNodeAllocatable": ["pods"],
        "authentication": {"x509": {"clientCAFile": str(authority)}, "webhook": {"enabled": True},
                           "anonymous": {"enabled": False}},
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(server.certificate), "tlsPrivateKeyFile": str(server.key),
        "resolvConf": "", "clusterDNS": [], "volumePluginDir": str(node.folder / "volume-plugins"),
        # The disk of this machine is shared, so its usage must not evict pods.
        "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
    }  # fmt: skip
    (node.folder / "kubelet.json").write_text(json.dumps(config))


def _path() -> str:
    return "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
