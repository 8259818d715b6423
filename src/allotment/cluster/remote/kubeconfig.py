"""The API server address and credentials of a cluster, from a kubeconfig or a pod's service account.

Several files (``KUBECONFIG``) are merged: the first file that contains a name wins, and paths are relative to the file
that contains them. Credentials that change (token files, exec plugins) are read in ``credentials``.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote, urlsplit

from allotment.errors import InputError
from allotment.model.loading import load_text
from allotment.model.trees import Tree

_PLUGIN_VERSIONS: Final = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
_MODES: Final = ("Never", "IfAvailable", "Always")
#: The extension of a cluster entry that is passed to plugins.
_TO_PLUGINS: Final = "client.authentication.k8s.io/exec"
_SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class KubeconfigError(InputError):
    """Raised if the configuration is not usable. The text contains what was expected, what was found, and where."""


class KubeconfigNotFound(KubeconfigError):
    """Raised if there is no kubeconfig."""


class CredentialPlugin(NamedTuple):
    """A program that creates credentials (``users[].user.exec``)."""

    command: str
    arguments: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    api_version: str
    install_hint: str = ""
    with_cluster: bool = False
    #: interactiveMode: Never, IfAvailable, Always.
    mode: str = "IfAvailable"
    #: The cluster entry's extension for plugins, as JSON.
    cluster_config: str = ""


class ClusterTarget(NamedTuple):
    """A cluster and a user. Bytes are PEM."""

    server: str
    context: str = ""
    namespace: str = "default"
    authority: bytes = b""
    insecure: bool = False
    server_name: str = ""
    proxy: str = ""
    certificate: bytes = b""
    key: bytes = b""
    #: The files from which authority, certificate and key are read again, if any.
    authority_file: Path | None = None
    certificate_file: Path | None = None
    key_file: Path | None = None
    token: str = ""
    token_file: Path | None = None
    user: str = ""
    password: str = ""
    plugin: CredentialPlugin | None = None
    #: Impersonation headers (``as``, ``as-groups``, ``as-uid``).
    impersonation: tuple[tuple[str, str], ...] = ()


def target(paths: Sequence[Path] = (), context: str = "", environment: Mapping[str, str] = os.environ) -> ClusterTarget:
    """The cluster and user of a context, from ``paths``, ``KUBECONFIG``, ``~/.kube/config`` or a service account."""
    given, paths = bool(paths), paths or default_paths(environment)
    if not any(path.exists() for path in paths):
        # A file or context given by the user must not select another cluster.
        if not (given or context) and (inside := in_cluster(environment, _SERVICE_ACCOUNT)) is not None:
            return inside
        looked = ", ".join(str(path) for path in paths)
        raise KubeconfigNotFound(f"no kubeconfig found: looked for {looked}; specify one or set KUBECONFIG")
    return _Merged(paths).target(context)


def contexts(paths: Sequence[Path] = (), environment: Mapping[str, str] = os.environ) -> tuple[list[str], str]:
    """The names of all contexts, and the current one (may be empty)."""
    merged = _Merged(paths or default_paths(environment))
    return list(merged.contexts), merged.current


def default_paths(environment: Mapping[str, str] = os.environ) -> list[Path]:
    """The paths that kubectl reads."""
    listed = [Path(entry) for entry in environment.get("KUBECONFIG", "").split(os.pathsep) if entry]
    try:
        return listed or [Path.home() / ".kube" / "config"]
    except RuntimeError:  # a pod's user may have no home
        return [Path("~/.kube/config")]


def in_cluster(environment: Mapping[str, str], folder: Path) -> ClusterTarget | None:
    """The cluster of this pod with the service account in ``folder``; None outside of a pod."""
    host, port = environment.get("KUBERNETES_SERVICE_HOST", ""), environment.get("KUBERNETES_SERVICE_PORT", "")
    token_file = folder / "token"
    if not (host and port and token_file.exists()):
        return None
    authority = folder / "ca.crt"
    namespace = folder / "namespace"
    return ClusterTarget(
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        namespace=namespace.read_text().strip() if namespace.exists() else "default",
        authority=authority.read_bytes() if authority.exists() else b"",
        authority_file=authority if authority.exists() else None,
        token_file=token_file,
    )


class _Entry(NamedTuple):
    """A cluster, user or context entry and its file."""

    file: Path
    name: str
    place: str
    tree: Tree

    def text(self, key: str) -> str:
        """A string value; empty if missing."""
        value = self.tree.get(key)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self.error(key, f"expected a string, found {type(value).__name__}")
        return value

    def objects(self, key: str, tree: Tree) -> list[Tree]:
        """A list of objects within the entry."""
        found = tree.get(key) or []
        if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
            raise self.error(key, "expected a list of objects")
        return found

    def pem(self, key: str) -> bytes:
        """The value of ``<key>-data``, or else the content of the file ``<key>``."""
        if data := self.text(f"{key}-data"):
            try:
                return base64.b64decode("".join(data.split()), validate=True)
            except (binascii.Error, ValueError) as error:
                raise self.error(f"{key}-data", f"expected base64: {error}") from None
        if not (name := self.text(key)):
            return b""
        path = self.path(name)
        try:
            return path.read_bytes()
        except OSError as error:
            raise self.error(key, f"{path} cannot be read: {error.strerror}") from None

    def file_of(self, key: str) -> Path | None:
        """The file ``<key>``, unless ``<key>-data`` overrides it."""
        name = self.text(key)
        return self.path(name) if name and not self.text(f"{key}-data") else None

    def path(self, name: str) -> Path:
        """A path, relative to the file of the entry."""
        return self.file.parent / name

    def error(self, key: str, problem: str) -> KubeconfigError:
        """The error for a value of the entry."""
        return KubeconfigError(f"{self.file}: {self.place} {self.name!r}, {key}: {problem}")


class _Merged:
    """Several merged files."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self.clusters: dict[str, _Entry] = {}
        self.users: dict[str, _Entry] = {}
        self.contexts: dict[str, _Entry] = {}
        self.current = ""
        self.files: list[Path] = []
        for path in paths:
            if path.exists():
                self._add(path, _read(path))

    def _add(self, path: Path, tree: Tree) -> None:
        self.files.append(path)
        current = tree.get("current-context")
        self.current = self.current or (current if isinstance(current, str) else "")
        sections = (("clusters", "cluster", self.clusters), ("users", "user", self.users),
                    ("contexts", "context", self.contexts))  # fmt: skip
        for section, inner, entries in sections:
            listed = tree.get(section) or []
            if not isinstance(listed, list):
                raise KubeconfigError(f"{path}: {section}: expected a list, found {type(listed).__name__}")
            for item in listed:
                value = item.get(inner) if isinstance(item, dict) else None
                if not isinstance(item, dict) or not isinstance(value or {}, dict):
                    raise KubeconfigError(f"{path}: {section}: expected entries with name and {inner}")
                name = str(item.get("name", ""))
                entries.setdefault(name, _Entry(path, name, inner, value or {}))

    def target(self, context: str) -> ClusterTarget:
        """The cluster and user of a context, by default the current one."""
        where = ", ".join(str(path) for path in self.files)
        name = context or self.current
        if not name:
            choice = f"; choose one of: {_listed(self.contexts)}" if self.contexts else " and no contexts"
            raise KubeconfigError(f"{where}: no current-context{choice}")
        place = self._of(self.contexts, name, where, "context")
        cluster = self._of(self.clusters, place.text("cluster"), where, f"context {name!r}: cluster")
        user_name = place.text("user")
        user = self._of(self.users, user_name, where, f"context {name!r}: user") if user_name else None
        if not (server := cluster.text("server")):
            raise cluster.error("server", "expected a URL, found nothing")
        if "://" not in server:
            server = f"http://{server}"
        if not _is_url(server):
            raise cluster.error("server", f"expected an http or https URL, found {server!r}")
        found = ClusterTarget(
            server=server.rstrip("/"),
            context=name,
            namespace=place.text("namespace") or "default",
            authority=cluster.pem("certificate-authority"),
            authority_file=cluster.file_of("certificate-authority"),
            insecure=cluster.tree.get("insecure-skip-tls-verify") is True,
            server_name=cluster.text("tls-server-name"),
            proxy=_proxy(cluster),
        )
        return found if user is None else _with_user(found, user, cluster)

    def _of(self, entries: dict[str, _Entry], name: str, where: str, kind: str) -> _Entry:
        if name not in entries:
            raise KubeconfigError(f"{where}: {kind} {name!r} not found; available: {_listed(entries)}")
        return entries[name]


def _is_url(server: str) -> bool:
    try:
        parts = urlsplit(server)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # an invalid address or port
        return False


def _proxy(cluster: _Entry) -> str:
    proxy = cluster.text("proxy-url")
    if proxy and not proxy.startswith(("http://", "https://")):
        problem = f"expected an http:// or https:// proxy, found {proxy!r}"
        socks = "; SOCKS is not supported: put an HTTP proxy in front of it or forward the port" * proxy.startswith(
            "socks"
        )
        raise cluster.error("proxy-url", f"{problem}{socks}")
    return proxy


def _with_user(found: ClusterTarget, user: _Entry, cluster: _Entry) -> ClusterTarget:
    certificate, key = user.pem("client-certificate"), user.pem("client-key")
    if bool(certificate) != bool(key):
        raise user.error("client-certificate", "client-certificate and client-key are required together")
    if user.tree.get("auth-provider"):
        raise user.error("auth-provider", "kubectl no longer supports auth providers: use exec")
    token_file = user.text("tokenFile")
    return found._replace(
        certificate=certificate,
        key=key,
        certificate_file=user.file_of("client-certificate"),
        key_file=user.file_of("client-key"),
        token=user.text("token"),
        token_file=user.path(token_file) if token_file else None,
        user=user.text("username"),
        password=user.text("password"),
        plugin=_plugin(user, cluster),
        impersonation=_impersonation(user),
    )


def _plugin(user: _Entry, cluster: _Entry) -> CredentialPlugin | None:
    tree = user.tree.get("exec")
    if not tree:
        return None
    command = tree.get("command") if isinstance(tree, dict) else None
    if not isinstance(command, str) or not command:
        raise user.error("exec", "expected a command")
    if "/" in command and not Path(command).is_absolute():
        command = str(user.path(command))
    pairs = [(str(entry.get("name")), str(entry.get("value", ""))) for entry in user.objects("env", tree)]
    arguments = tuple(str(argument) for argument in tree.get("args") or ())
    version = str(tree.get("apiVersion") or "")
    if version not in _PLUGIN_VERSIONS:
        gone = "; kubectl 1.24 and newer do not support v1alpha1" if version.endswith("/v1alpha1") else ""
        raise user.error("exec", f"expected apiVersion {' or '.join(_PLUGIN_VERSIONS)}, found {version!r}{gone}")
    mode = str(tree.get("interactiveMode") or "")
    if mode and mode not in _MODES:
        raise user.error("exec", f"expected interactiveMode {', '.join(_MODES)}, found {mode!r}")
    extensions = [entry for entry in cluster.objects("extensions", cluster.tree) if entry.get("name") == _TO_PLUGINS]
    return CredentialPlugin(
        command, arguments, tuple(pairs), version, str(tree.get("installHint") or ""),
        tree.get("provideClusterInfo") is True, mode or "IfAvailable",
        json.dumps(extensions[0].get("extension")) if extensions else "",
    )  # fmt: skip


def _impersonation(user: _Entry) -> tuple[tuple[str, str], ...]:
    headers = [("Impersonate-User", user.text("as")), ("Impersonate-Uid", user.text("as-uid"))]
    headers += [("Impersonate-Group", str(group)) for group in user.tree.get("as-groups") or ()]
    extra = user.tree.get("as-user-extra") or {}
    if not isinstance(extra, dict) or not all(isinstance(values, list) for values in extra.values()):
        raise user.error("as-user-extra", "expected a map from names to lists of strings")
    for key, values in extra.items():
        # Characters that are not allowed in a header name are escaped, as in client-go.
        name = quote(key, safe="!#$&'*+^`|")
        headers += [(f"Impersonate-Extra-{name}", str(value)) for value in values]
    return tuple(pair for pair in headers if pair[1])


def _listed(entries: Iterable[str]) -> str:
    return ", ".join(sorted(entries)) or "none"


def _read(path: Path) -> Tree:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise KubeconfigError(f"{path} cannot be read: {error.strerror}") from None
    loaded = load_text(content, str(path))
    if loaded.problems:
        raise KubeconfigError(str(loaded.problems[0]))
    if not loaded.documents:
        return {}
    tree = loaded.documents[0].tree
    if tree.get("kind", "Config") != "Config":
        raise KubeconfigError(f"{path}: expected a kubectl configuration (kind: Config), found {tree.get('kind')}")
    return tree
