"""The cluster for a program that has no file system of its own: where its token is, in a kubeconfig.

In a real container clients find token and authority under a fixed path, and the server by two variables. A process has
no such path; but whatever looks there looks for ``KUBECONFIG`` first.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from allotment.node.runtimes.runtime import Sandbox
from allotment.node.volumes import SERVICE_ACCOUNT

_NAME: Final = "pod"


def variables(sandbox: Sandbox, server: str, folder: Path) -> dict[str, str]:
    """``KUBECONFIG``, for a file that is made in ``folder``; none without a server, or for a pod without a token."""
    mount = sandbox.mounts.get(SERVICE_ACCOUNT)
    if not server or mount is None or not (mount / "token").exists():
        return {}
    cluster: dict[str, Any] = {"server": server}
    if server.startswith("https:"):
        cluster["certificate-authority"] = str(mount / "ca.crt")
    namespace = sandbox.pod["metadata"].get("namespace", "")
    tree = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": _NAME,
        "clusters": [{"name": _NAME, "cluster": cluster}],
        "users": [{"name": _NAME, "user": {"tokenFile": str(mount / "token")}}],
        "contexts": [{"name": _NAME, "context": {"cluster": _NAME, "user": _NAME, "namespace": namespace}}],
    }
    path = folder / "kubeconfig"
    path.write_text(json.dumps(tree))
    return {"KUBECONFIG": str(path)}
