from __future__ import annotations

import base64
from pathlib import Path

import pytest

from allotment.cluster.remote import kubeconfig
from allotment.cluster.remote.kubeconfig import KubeconfigError

FIRST = """
apiVersion: v1
kind: Config
current-context: dev
contexts:
- {name: dev, context: {cluster: c1, user: u1, namespace: shop}}
- {name: other, context: {cluster: c2, user: u2}}
clusters:
- {name: c1, cluster: {server: "https://one:6443/", certificate-authority: pki/ca.crt, tls-server-name: kubernetes,
   proxy-url: "http://proxy:3128"}}
users:
- {name: u1, user: {client-certificate-data: Q0VSVA==, client-key: pki/admin.key}}
"""
SECOND = """
current-context: other
contexts: [{name: dev, context: {cluster: c2, user: u2}}]
clusters: [{name: c2, cluster: {server: "two:8080", insecure-skip-tls-verify: true}}]
users: [{name: u2, user: {tokenFile: token, as: jane, as-groups: [a, b], as-user-extra: {reason: [x]}}}]
"""


def written(folder: Path, text: str, name: str = "config") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.fixture
def two(tmp_path: Path) -> list[Path]:
    written(tmp_path, "AUTHORITY", "a/pki/ca.crt")
    written(tmp_path, "KEY", "a/pki/admin.key")
    return [written(tmp_path, FIRST, "a/config"), written(tmp_path, SECOND, "b/config")]


def test_relative_paths_start_at_the_kubeconfig(two: list[Path]) -> None:
    found = kubeconfig.target(two)
    assert found == kubeconfig.ClusterTarget(
        server="https://one:6443", context="dev", namespace="shop", authority=b"AUTHORITY", server_name="kubernetes",
        proxy="http://proxy:3128", certificate=b"CERT", key=b"KEY", key_file=two[0].parent / "pki/admin.key",
        authority_file=two[0].parent / "pki/ca.crt",
    )  # fmt: skip


def test_files_are_merged_and_the_first_definition_wins(two: list[Path]) -> None:
    environment = {"KUBECONFIG": f"{two[0]}:/not/there:{two[1]}"}
    assert kubeconfig.contexts(environment=environment) == (["dev", "other"], "dev")
    found = kubeconfig.target(context="other", environment=environment)
    assert (found.server, found.insecure, found.namespace) == ("http://two:8080", True, "default")
    assert found.token_file == two[1].parent / "token"
    assert found.impersonation == (("Impersonate-User", "jane"), ("Impersonate-Group", "a"),
                                   ("Impersonate-Group", "b"), ("Impersonate-Extra-reason", "x"))  # fmt: skip
    assert kubeconfig.target(two[1:], "dev").server == "http://two:8080"


def test_a_plugin(tmp_path: Path) -> None:
    text = """
current-context: x
contexts: [{name: x, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "https://c"}}]
users:
- name: u
  user:
    exec: {apiVersion: client.authentication.k8s.io/v1, command: ./bin/login, args: [--for, me],
           env: [{name: A, value: b}], provideClusterInfo: true, installHint: get it}
"""
    path = written(tmp_path, text)
    assert kubeconfig.target([path]).plugin == kubeconfig.CredentialPlugin(
        str(tmp_path / "bin/login"), ("--for", "me"), (("A", "b"),), "client.authentication.k8s.io/v1", "get it", True
    )


MINIMAL = "current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\n"
CLUSTER = "clusters: [{name: c, cluster: {server: 'https://c'}}]\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "config:2:1: invalid YAML"),
        ("kind: Pod", "config: expected a kubectl configuration (kind: Config), found Pod"),
        ("clusters: 3", "config: clusters: expected a list, found int"),
        ("clusters: [3]", "config: clusters: expected entries with name and cluster"),
        (MINIMAL.replace("current-context: x\n", ""), "config: no current-context; choose one of: x"),
        ("apiVersion: v1\nkind: Config\n", "config: no current-context and no contexts"),
        (MINIMAL.replace("current-context: x", "current-context: z"), "config: context 'z' not found; available: x"),
        (MINIMAL, "config: context 'x': cluster 'c' not found; available: none"),
        (MINIMAL + CLUSTER, "config: context 'x': user 'u' not found; available: none"),
        (MINIMAL + CLUSTER.replace("server: 'https://c'", "a: b") + "users: [{name: u}]",
         "config: cluster 'c', server: expected a URL, found nothing"),
        (MINIMAL + CLUSTER.replace("https:", "ftp:") + "users: [{name: u}]",
         "config: cluster 'c', server: expected an http or https URL, found 'ftp://c'"),
        (MINIMAL + CLUSTER + "users: [{name: u, user: {token: 3}}]",
         "config: user 'u', token: expected a string, found int"),
        (MINIMAL + CLUSTER + "users: [{name: u, user: {client-certificate: gone.crt}}]", "gone.crt cannot be read: "),
        (MINIMAL + CLUSTER + "users: [{name: u, user: {client-key-data: '?'}}]", "client-key-data: expected base64"),
        (MINIMAL + CLUSTER + "users: [{name: u, user: {client-key-data: AAAA}}]", "are required together"),
        (MINIMAL + CLUSTER + "users: [{name: u, user: {auth-provider: {name: gcp}}}]", "use exec"),
        (MINIMAL + CLUSTER + "users: [{name: u, user: {exec: {command: a}}}]", "found ''"),
        (MINIMAL + CLUSTER + "users: [{name: u, user: {exec: {args: [a]}}}]", "exec: expected a command"),
        (MINIMAL + CLUSTER + "users: [{name: u, user: {exec: {command: a, apiVersion: "
         "client.authentication.k8s.io/v1alpha1}}}]", "kubectl 1.24 and newer do not support v1alpha1"),
        (MINIMAL + CLUSTER + "users: [{name: u, user: {exec: {command: a, interactiveMode: Often, apiVersion: "
         "client.authentication.k8s.io/v1}}}]", "expected interactiveMode Never, IfAvailable, Always, found 'Often'"),
        (MINIMAL + CLUSTER.replace("server", "proxy-url: 'socks5://p:1080', server") + "users: [{name: u}]",
         ("cluster 'c', proxy-url: expected an http:// or https:// proxy, found 'socks5://p:1080'; "
          "SOCKS is not supported")),
        (MINIMAL + CLUSTER.replace("server", "proxy-url: 'p:3128', server") + "users: [{name: u}]",
         "proxy-url: expected an http:// or https:// proxy, found 'p:3128'"),
        (MINIMAL + CLUSTER.replace("//c", "//[::1") + "users: [{name: u}]",
         "cluster 'c', server: expected an http or https URL, found 'https://[::1'"),
        (MINIMAL + CLUSTER.replace("//c", "//c:99999") + "users: [{name: u}]", "found 'https://c:99999'"),
        (MINIMAL + CLUSTER.replace("server", "extensions: [x], server") + "users: [{name: u, user: {exec: {command: a, "
         "apiVersion: client.authentication.k8s.io/v1}}}]", "cluster 'c', extensions: expected a list of objects"),
        (MINIMAL + CLUSTER + "users: [{name: u, user: {exec: {command: a, env: [A=b], apiVersion: "
         "client.authentication.k8s.io/v1}}}]", "user 'u', env: expected a list of objects"),
        (MINIMAL + CLUSTER + "users: [{name: u, user: {as: jane, as-user-extra: [x]}}]",
         "user 'u', as-user-extra: expected a map from names to lists of strings"),
    ],
)  # fmt: skip
def test_errors_have_their_location(tmp_path: Path, text: str, message: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(KubeconfigError) as raised:
        kubeconfig.target([path])
    assert str(raised.value).startswith(str(tmp_path))
    assert message in str(raised.value)


def test_a_plugin_gets_the_extension_of_the_cluster_entry(tmp_path: Path) -> None:
    text = (
        MINIMAL
        + """
clusters:
- name: c
  cluster:
    server: https://c
    extensions:
    - {name: other, extension: {}}
    - {name: client.authentication.k8s.io/exec, extension: {audience: x}}
users: [{name: u, user: {exec: {apiVersion: client.authentication.k8s.io/v1beta1, command: login,
         provideClusterInfo: true, interactiveMode: Never}}}]
"""
    )
    found = kubeconfig.target([written(tmp_path, text)]).plugin
    assert found is not None
    assert (found.mode, found.cluster_config, found.command) == ("Never", '{"audience": "x"}', "login")


def test_an_impersonated_user_becomes_headers(tmp_path: Path) -> None:
    user = "{as: jane, as-uid: '7', as-user-extra: {example.com/teams: [a, b]}}"
    path = written(tmp_path, f"{MINIMAL}{CLUSTER}users: [{{name: u, user: {user}}}]")
    assert kubeconfig.target([path]).impersonation == (
        ("Impersonate-User", "jane"), ("Impersonate-Uid", "7"), ("Impersonate-Extra-example.com%2Fteams", "a"),
        ("Impersonate-Extra-example.com%2Fteams", "b"),
    )  # fmt: skip


def test_the_error_for_a_missing_file_lists_the_searched_paths(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match=r"looked for .*/none; specify one or set KUBECONFIG"):
        kubeconfig.target([tmp_path / "none"])


def test_in_a_pod_the_service_account_is_used(tmp_path: Path) -> None:
    environment = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    assert kubeconfig.in_cluster(environment, tmp_path) is None
    written(tmp_path, "secret", "token")
    written(tmp_path, "PEM", "ca.crt")
    written(tmp_path, "jobs\n", "namespace")
    assert kubeconfig.in_cluster({}, tmp_path) is None
    assert kubeconfig.in_cluster(environment, tmp_path) == kubeconfig.ClusterTarget(
        server="https://[fd00::1]:443", namespace="jobs", authority=b"PEM", authority_file=tmp_path / "ca.crt",
        token_file=tmp_path / "token",
    )  # fmt: skip


@pytest.fixture
def pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The environment inside of a pod."""
    written(tmp_path, "secret", "account/token")
    monkeypatch.setattr(kubeconfig, "_SERVICE_ACCOUNT", tmp_path / "account")
    return {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}


def test_an_explicit_path_has_no_fallback_to_the_service_account(tmp_path: Path, pod: dict[str, str]) -> None:
    assert kubeconfig.target(environment={**pod, "KUBECONFIG": "/not/there"}).server == "https://10.0.0.1:443"
    with pytest.raises(kubeconfig.KubeconfigNotFound, match=r"looked for .*/none"):
        kubeconfig.target([tmp_path / "none"], environment=pod)


def test_a_missing_home_directory_is_not_an_error(pod: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    assert kubeconfig.target(environment=pod).server == "https://10.0.0.1:443"
    with pytest.raises(kubeconfig.KubeconfigNotFound, match=r"looked for ~/.kube/config"):
        kubeconfig.target(environment={})


def test_base64_data_can_contain_line_breaks(tmp_path: Path) -> None:
    data = base64.encodebytes(b"x" * 200).decode().replace("\n", "\n      ")
    text = MINIMAL + "users: [{name: u}]\nclusters:\n- name: c\n  cluster:\n    server: https://c\n"
    path = written(tmp_path, f"{text}    certificate-authority-data: |\n      {data}\n")
    assert kubeconfig.target([path]).authority == b"x" * 200
