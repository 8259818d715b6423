"""The lab's context in kubectl's configuration: put in at the start, taken out at the end, the rest left as it is.

kubectl's own way with the file is kept: a lock file beside it while it is changed, replaced in one step, comments lost.
The lab becomes the current context, as with every tool that makes clusters; at the end the one before comes back.
"""

from __future__ import annotations

import base64
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from allotment.files import atomic_write, private
from allotment.model.loading import load_text
from allotment.model.serialization import to_yaml
from allotment.model.trees import Tree

_SECTIONS = {"clusters": "cluster", "users": "user", "contexts": "context"}
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
#: kubectl holds its lock for one rewrite; one that stays longer was left behind.
_LOCK_SECONDS = 3.0


class Access(NamedTuple):
    """How to reach a lab, and as whom. PEM texts; all empty for plain HTTP."""

    server: str
    authority: bytes = b""
    certificate: bytes = b""
    key: bytes = b""


class UnusableKubeconfig(Exception):
    """The file is there but cannot be changed safely; it was left alone."""


def default_path() -> Path:
    """The file that kubectl writes to: the first of ``KUBECONFIG``, else ``~/.kube/config``."""
    listed = [entry for entry in os.environ.get("KUBECONFIG", "").split(os.pathsep) if entry]
    return Path(listed[0]) if listed else Path.home() / ".kube" / "config"


def add(path: Path, context: str, access: Access) -> str:
    """Put a context in, and make it the current one; returns the current context before.

    Raises UnusableKubeconfig for a file that cannot be changed, or whose context of that name is another's cluster.
    """
    with _changing(path) as tree:
        _check_ours(path, tree, context, access)
        previous = str(tree.get("current-context") or "")
        for (section, inner), value in zip(_SECTIONS.items(), _entries(context, access), strict=True):
            tree[section] = [*_others(tree, section, context), {"name": context, inner: value}]
        tree["current-context"] = context
    return previous


def _check_ours(path: Path, tree: Tree, context: str, access: Access) -> None:
    """What stands under the name was a lab of ours: on this machine, or where this one listens."""
    for entry in tree.get("clusters") or ():
        if entry.get("name") == context:
            server = str((entry.get("cluster") or {}).get("server", ""))
            host = urlsplit(server).hostname or ""
            if host not in (*_LOOPBACK, urlsplit(access.server).hostname):
                told = f"{path}: context {context!r} is of another cluster ({server}), which is left alone"
                raise UnusableKubeconfig(f"{told}: choose another --name or --kubeconfig")


def remove(path: Path, context: str, previous: str = "") -> None:
    """Take a context out; if it is the current one, ``previous`` takes its place if it is there."""
    if not path.exists():
        return
    with _changing(path) as tree:
        for section in _SECTIONS:
            if section in tree:
                tree[section] = _others(tree, section, context)
        if tree.get("current-context") == context:
            known = [entry.get("name") for entry in _others(tree, "contexts", context)]
            tree["current-context"] = previous if previous in known else ""


def text(context: str, access: Access) -> str:
    """A whole file with nothing but one context."""
    cluster, user, place = _entries(context, access)
    tree = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": context, "cluster": cluster}],
        "users": [{"name": context, "user": user}],
        "contexts": [{"name": context, "context": place}],
        "current-context": context,
    }
    return to_yaml([tree])


def _entries(context: str, access: Access) -> tuple[Tree, Tree, Tree]:
    cluster = {"server": access.server}
    user: Tree = {}
    if access.authority:
        cluster["certificate-authority-data"] = _encoded(access.authority)
    if access.certificate:
        user = {"client-certificate-data": _encoded(access.certificate), "client-key-data": _encoded(access.key)}
    return cluster, user, {"cluster": context, "user": context}


def _encoded(pem: bytes) -> str:
    return base64.b64encode(pem).decode("ascii")


def _others(tree: Tree, section: str, name: str) -> list[Tree]:
    return [entry for entry in tree.get(section) or () if entry.get("name") != name]


@contextmanager
def _changing(path: Path) -> Iterator[Tree]:
    private.make_folder(path.parent)
    path = path.resolve()  # a link stays a link
    with _locked(path):
        before, tree, mode = _read(path)
        yield tree
        after = to_yaml([tree]).encode()
        if after != before:
            atomic_write.replace(path, after, mode=mode)


def _read(path: Path) -> tuple[bytes, Tree, int]:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return b"", _empty(), 0o600
    loaded = load_text(content, str(path))
    if loaded.problems:
        first = loaded.problems[0]
        raise UnusableKubeconfig(f"{first.position}: {first.message}")
    if not content.strip():
        return content, _empty(), 0o600
    tree = dict(loaded.documents[0].tree) if len(loaded.documents) == 1 else {"kind": "something else"}
    if tree.get("kind", "Config") != "Config" or not all(_is_section(tree.get(section)) for section in _SECTIONS):
        raise UnusableKubeconfig(f"{path}: wanted a kubectl configuration (kind: Config), found something else")
    return content, tree, path.stat().st_mode & 0o777


def _empty() -> Tree:
    return {"apiVersion": "v1", "kind": "Config", "preferences": {}}


def _is_section(value: Any) -> bool:
    return value is None or (isinstance(value, list) and all(isinstance(entry, dict) for entry in value))


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    lock = path.with_name(path.name + ".lock")
    patience = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            os.close(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0))
            break
        except FileExistsError:
            if time.monotonic() > patience:
                raise UnusableKubeconfig(f"{path} is locked: if no kubectl is running, remove {lock}") from None
            time.sleep(0.05)
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
