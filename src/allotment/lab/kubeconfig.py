"""The lab's context in the kubeconfig file: added at start, removed at shutdown, the rest unchanged.

The file is written as kubectl does it: with a lock file next to it, replaced atomically, comments lost. The lab becomes
the current context, as with other tools that create clusters; at shutdown the previous one is restored.
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
#: kubectl holds its lock for one rewrite; a lock held longer is stale.
_LOCK_SECONDS = 3.0


class Access(NamedTuple):
    """Address and credentials of a lab. PEM texts; all empty for plain HTTP."""

    server: str
    authority: bytes = b""
    certificate: bytes = b""
    key: bytes = b""


class UnusableKubeconfig(Exception):
    """Raised for a file that cannot be changed safely; it is left unchanged."""


def default_path() -> Path:
    """The file that kubectl writes: the first of ``KUBECONFIG``, else ``~/.kube/config``."""
    listed = [entry for entry in os.environ.get("KUBECONFIG", "").split(os.pathsep) if entry]
    return Path(listed[0]) if listed else Path.home() / ".kube" / "config"


def add(path: Path, context: str, access: Access) -> str:
    """Add a context and make it the current one. Returns the previous current context.

    Raises UnusableKubeconfig for a file that cannot be changed, or whose context of that name is another cluster's.
    """
    with _changing(path) as tree:
        _check_is_lab(path, tree, context, access)
        previous = str(tree.get("current-context") or "")
        for (section, inner), value in zip(_SECTIONS.items(), _entries(context, access), strict=True):
            tree[section] = [*_others(tree, section, context), {"name": context, inner: value}]
        tree["current-context"] = context
    return previous


def _check_is_lab(path: Path, tree: Tree, context: str, access: Access) -> None:
    """Check that an existing context of that name is a lab's: on a loopback address or the lab's own."""
    for entry in tree.get("clusters") or ():
        if entry.get("name") == context:
            server = str((entry.get("cluster") or {}).get("server", ""))
            host = urlsplit(server).hostname or ""
            if host not in (*_LOOPBACK, urlsplit(access.server).hostname):
                problem = f"{path}: context {context!r} belongs to another cluster ({server}) and is not changed"
                raise UnusableKubeconfig(f"{problem}: choose a different --name or --kubeconfig")


def remove(path: Path, context: str, previous: str = "") -> None:
    """Remove a context; if it is the current one, ``previous`` replaces it if it exists."""
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
    """The text of a kubeconfig file with only this context."""
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
    path = path.resolve()  # preserve a symbolic link
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
        raise UnusableKubeconfig(f"{path}: expected a kubectl configuration (kind: Config), found something else")
    return content, tree, path.stat().st_mode & 0o777


def _empty() -> Tree:
    return {"apiVersion": "v1", "kind": "Config", "preferences": {}}


def _is_section(value: Any) -> bool:
    return value is None or (isinstance(value, list) and all(isinstance(entry, dict) for entry in value))


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    lock = path.with_name(path.name + ".lock")
    deadline = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            os.close(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0))
            break
        except FileExistsError:
            if time.monotonic() > deadline:
                raise UnusableKubeconfig(f"{path} is locked: if kubectl is not running, remove {lock}") from None
            time.sleep(0.05)
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
