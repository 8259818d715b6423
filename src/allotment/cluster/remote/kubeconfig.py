"""Where a cluster is and who we are there, as kubectl's configuration or a pod's service account says it.

Several files (``KUBECONFIG``) are one: of each name, the first file that has it counts, and relative paths are relative
to the file that holds them. Credentials that change (token files, exec plugins) are named here and read in
``credentials``.
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

from allotment.model.loading import load_text
from allotment.model.trees import Tree

_PLUGIN_VERSIONS: Final = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
_MODES: Final = ("Never", "IfAvailable", "Always")
#: The extension of a cluster's entry that its plugins are told.
_TO_PLUGINS: Final = "client.authentication.k8s.io/exec"
_SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class KubeconfigError(Exception):
    """There is no way to a cluster in what was found; the text says what was wanted, what was found, and where."""


class KubeconfigNotFound(KubeconfigError):
    """Nothing was found at all."""


class CredentialPlugin(NamedTuple):
    """A program that makes credentials (``users[].user.exec``)."""

    command: str
    arguments: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    api_version: str
    install_hint: str = ""
    with_cluster: bool = False
    #: Whether a person may be asked: Never, IfAvailable, Always.
    mode: str = "IfAvailable"
    #: What the cluster's entry says to plugins, as JSON.
    cluster_config: str = ""


class ClusterTarget(NamedTuple):
    """A cluster and a user. PEM where bytes."""

    server: str
    context: str = ""
    namespace: str = "default"
    authority: bytes = b""
    insecure: bool = False
    server_name: str = ""
    proxy: str = ""
    certificate: bytes = b""
    key: bytes = b""
    #: Where authority, certificate and key are read again, if they stand in files.
    authority_file: Path | None = None
    certificate_file: Path | None = None
    key_file: Path | None = None
    token: str = ""
    token_file: Path | None = None
    user: str = ""
    password: str = ""
    plugin: CredentialPlugin | None = None
    #: Headers that ask to act as somebody else (``as``, ``as-groups``, ``as-uid``).
    impersonation: tuple[tuple[str, str], ...] = ()


def target(paths: Sequence[Path] = (), context: str = "", environment: Mapping[str, str] = os.environ) -> ClusterTarget:
    """The way to a cluster: by the files given, by ``KUBECONFIG``, by ``~/.kube/config``, or from the pod we are in."""
    given, paths = bool(paths), paths or default_paths(environment)
    if not any(path.exists() for path in paths):
        # Whoever names a file means that cluster, and not another one.
        if not (given or context) and (inside := in_cluster(environment, _SERVICE_ACCOUNT)) is not None:
            return inside
        looked = ", ".join(str(path) for path in paths)
        raise KubeconfigNotFound(f"no kubeconfig: looked for {looked}; set --kubeconfig or KUBECONFIG")
    return _Merged(paths).target(context)


def contexts(paths: Sequence[Path] = (), environment: Mapping[str, str] = os.environ) -> tuple[list[str], str]:
    """The names of all contexts, and the current one (may be empty)."""
    merged = _Merged(paths or default_paths(environment))
    return list(merged.contexts), merged.current


def default_paths(environment: Mapping[str, str] = os.environ) -> list[Path]:
    """Where kubectl looks."""
    listed = [Path(entry) for entry in environment.get("KUBECONFIG", "").split(os.pathsep) if entry]
    try:
        return listed or [Path.home() / ".kube" / "config"]
    except RuntimeError:  # a pod's user may have no home
        return [Path("~/.kube/config")]


def in_cluster(environment: Mapping[str, str], folder: Path) -> ClusterTarget | None:
    """The cluster whose pod we are in, as the service account of a folder; None outside of one."""
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
    """One cluster, user or context: where it stands, and what it says."""

    file: Path
    name: str
    place: str
    tree: Tree

    def text(self, key: str) -> str:
        """A string value, empty where there is none."""
        value = self.tree.get(key)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self.wrong(key, f"expected a string, found {type(value).__name__}")
        return value

    def objects(self, key: str, tree: Tree) -> list[Tree]:
        """A list of objects in a tree of the entry's."""
        found = tree.get(key) or []
        if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
            raise self.wrong(key, "expected a list of objects")
        return found

    def pem(self, key: str) -> bytes:
        """What ``<key>-data`` holds, else the content of the file ``<key>``."""
        if data := self.text(f"{key}-data"):
            try:
                return base64.b64decode("".join(data.split()), validate=True)
            except (binascii.Error, ValueError) as error:
                raise self.wrong(f"{key}-data", f"expected base64: {error}") from None
        if not (name := self.text(key)):
            return b""
        path = self.path(name)
        try:
            return path.read_bytes()
        except OSError as error:
            raise self.wrong(key, f"{path} cannot be read: {error.strerror}") from None

    def file_of(self, key: str) -> Path | None:
        """The file ``<key>``, where it counts."""
        name = self.text(key)
        return self.path(name) if name and not self.text(f"{key}-data") else None

    def path(self, name: str) -> Path:
        """A file name, seen from the file that holds it."""
        return self.file.parent / name

    def wrong(self, key: str, what: str) -> KubeconfigError:
        """The error that points to a value."""
        return KubeconfigError(f"{self.file}: {self.place} {self.name!r}, {key}: {what}")


class _Merged:
    """Several files as one."""

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
        """The cluster and user of a context, of the current one if none is named."""
        where = ", ".join(str(path) for path in self.files)
        name = context or self.current
        if not name:
            choice = f"; choose one of: {_listed(self.contexts)}" if self.contexts else " and no contexts"
            raise KubeconfigError(f"{where}: no current-context{choice}")
        place = self._of(self.contexts, name, where, "context")
        cluster = self._of(self.clusters, place.text("cluster"), where, f"cluster of context {name!r},")
        user_name = place.text("user")
        user = self._of(self.users, user_name, where, f"user of context {name!r},") if user_name else None
        if not (server := cluster.text("server")):
            raise cluster.wrong("server", "expected a URL, found nothing")
        if "://" not in server:
            server = f"http://{server}"
        if not _is_url(server):
            raise cluster.wrong("server", f"expected an http or https URL, found {server!r}")
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

    def _of(self, entries: dict[str, _Entry], name: str, where: str, what: str) -> _Entry:
        if name not in entries:
            raise KubeconfigError(f"{where}: {what} {name!r} not found; available: {_listed(entries)}")
        return entries[name]


def _is_url(server: str) -> bool:
    try:
        parts = urlsplit(server)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # an address or a port that is none
        return False


def _proxy(cluster: _Entry) -> str:
    proxy = cluster.text("proxy-url")
    if proxy and not proxy.startswith(("http://", "https://")):
        what = f"expected an http:// or https:// proxy, found {proxy!r}"
        socks = "; SOCKS is not supported: put an HTTP proxy in front of it or forward the port" * proxy.startswith(
            "socks"
        )
        raise cluster.wrong("proxy-url", f"{what}{socks}")
    return proxy


def _with_user(found: ClusterTarget, user: _Entry, cluster: _Entry) -> ClusterTarget:
    certificate, key = user.pem("client-certificate"), user.pem("client-key")
    if bool(certificate) != bool(key):
        raise user.wrong("client-certificate", "a certificate needs its client-key, and a key its certificate")
    if user.tree.get("auth-provider"):
        raise user.wrong("auth-provider", "kubectl no longer supports auth providers: use exec")
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
        raise user.wrong("exec", "expected a command")
    if "/" in command and not Path(command).is_absolute():
        command = str(user.path(command))
    pairs = [(str(entry.get("name")), str(entry.get("value", ""))) for entry in user.objects("env", tree)]
    arguments = tuple(str(argument) for argument in tree.get("args") or ())
    version = str(tree.get("apiVersion") or "")
    if version not in _PLUGIN_VERSIONS:
        gone = "; kubectl 1.24 and newer do not support v1alpha1" if version.endswith("/v1alpha1") else ""
        raise user.wrong("exec", f"expected apiVersion {' or '.join(_PLUGIN_VERSIONS)}, found {version!r}{gone}")
    mode = str(tree.get("interactiveMode") or "")
    if mode and mode not in _MODES:
        raise user.wrong("exec", f"expected interactiveMode {', '.join(_MODES)}, found {mode!r}")
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
        raise user.wrong("as-user-extra", "expected names, each with a list of strings")
    for key, values in extra.items():
        # What a header's name cannot hold is escaped, as client-go does.
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
