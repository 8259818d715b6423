"""Which proxy the environment means, by the rules that kubectl has from Go."""

from __future__ import annotations

import pytest

from allotment.cluster.remote.proxies import proxy_for

PROXY = "http://proxy:3128"


@pytest.mark.parametrize(
    ("exceptions", "server", "through"),
    [
        ("", "https://k8s.example.com", True),
        ("", "https://localhost:6443", False),
        ("", "https://127.0.0.2:6443", False),
        ("", "https://[::1]:6443", False),
        ("*", "https://k8s.example.com", False),
        ("example.com", "https://k8s.example.com", False),
        ("example.com", "https://example.com", False),
        ("example.com", "https://badexample.com", True),
        (".example.com", "https://example.com", True),
        (".example.com", "https://k8s.example.com:6443", False),
        ("*.example.com", "https://k8s.example.com", False),
        ("EXAMPLE.com", "https://k8s.Example.COM", False),
        ("k8s.example.com:6443", "https://k8s.example.com:6443", False),
        ("k8s.example.com:6443", "https://k8s.example.com:443", True),
        ("k8s.example.com:443", "https://k8s.example.com", False),
        ("10.0.0.0/8", "https://10.96.0.1:443", False),
        ("10.0.0.0/8", "https://11.0.0.1", True),
        ("10.0.0.0/8", "https://k8s.example.com", True),
        ("10.96.0.1", "https://10.96.0.1:6443", False),
        ("fd00::/8", "https://[fd00::1]:6443", False),
        ("fd00::1", "https://[fd00::1]:6443", False),
        ("nonsense/99, a:b:c , ,x", "https://k8s.example.com", True),
    ],
)
def test_hosts_excluded_by_no_proxy(exceptions: str, server: str, through: bool) -> None:
    environment = {"HTTPS_PROXY": PROXY, "no_proxy": exceptions}
    assert proxy_for(server, environment) == (PROXY if through else "")


def test_the_variable_depends_on_the_scheme_of_the_server() -> None:
    environment = {"https_proxy": "https://secure:1", "HTTP_PROXY": "plain:2"}
    assert proxy_for("https://a", environment) == "https://secure:1"
    assert proxy_for("http://a", environment) == "http://plain:2"
    assert proxy_for("http://a", {**environment, "REQUEST_METHOD": "GET"}) == ""
    assert proxy_for("https://a", {}) == ""
