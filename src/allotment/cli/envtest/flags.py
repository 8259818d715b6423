"""The flags of kube-apiserver, of which a lab implements some, and of etcd."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

#: The flags with an effect, and their help.
IMPLEMENTED: Final[Mapping[str, str]] = {
    "authorization-mode": "strings: must contain RBAC",
    "bind-address": "ip: the address to listen on (default 127.0.0.1)",
    "cert-dir": "string: the directory with apiserver.crt and apiserver.key",
    "client-ca-file": "string: the authority of client certificates",
    "disable-admission-plugins": "strings: ServiceAccount and other plugins that are enabled by default",
    "enable-admission-plugins": "strings: ignored; the plugins that are implemented are enabled",
    "feature-gates": "A=true,B=false: feature gates that differ from the release's defaults",
    "runtime-config": "KEY=VALUE: API versions to serve besides the defaults",
    "secure-port": "int: the port to listen on (default 6443)",
    "tls-cert-file": "string: the server's certificate (default: in --cert-dir)",
    "tls-private-key-file": "string: its private key (default: in --cert-dir)",
}
#: Flags that are accepted, because a client of a lab does not notice whether they have an effect.
_WITHOUT_EFFECT: Final = """
    allow-privileged advertise-address contention-profiling disable-http2-serving enable-aggregator-routing
    enable-garbage-collector enable-logs-handler enable-priority-and-fairness endpoint-reconciler-type etcd-cafile
    etcd-certfile etcd-compaction-interval etcd-count-metric-poll-period etcd-db-metric-poll-interval
    etcd-healthcheck-timeout etcd-keyfile etcd-prefix etcd-readycheck-timeout etcd-servers etcd-servers-overrides
    external-hostname goaway-chance http2-max-streams-per-connection lease-reuse-duration-seconds livez-grace-period
    log-flush-frequency log-json-info-buffer-size log-json-split-stream log-text-info-buffer-size
    log-text-split-stream logging-format max-mutating-requests-inflight max-requests-inflight min-request-timeout
    permit-address-sharing permit-port-sharing profiling service-account-extend-token-expiration
    service-account-issuer service-account-jwks-uri service-account-key-file service-account-lookup
    service-account-signing-key-file service-cluster-ip-range shutdown-delay-duration shutdown-send-retry-after
    shutdown-watch-termination-grace-period storage-backend storage-initialization-timeout storage-media-type
    tracing-config-file v vmodule watch-cache watch-cache-sizes
"""
#: Flags of kube-apiserver that a lab does not implement: it starts with a warning.
_NOT_IMPLEMENTED: Final = """
    admission-control admission-control-config-file aggregator-reject-forwarding-redirect allow-metric-labels
    allow-metric-labels-manifest anonymous-auth api-audiences audit-log-batch-buffer-size audit-log-batch-max-size
    audit-log-batch-max-wait audit-log-batch-throttle-burst audit-log-batch-throttle-enable
    audit-log-batch-throttle-qps audit-log-compress audit-log-format audit-log-maxage audit-log-maxbackup
    audit-log-maxsize audit-log-mode audit-log-path audit-log-truncate-enabled audit-log-truncate-max-batch-size
    audit-log-truncate-max-event-size audit-log-version audit-policy-file audit-webhook-batch-buffer-size
    audit-webhook-batch-max-size audit-webhook-batch-max-wait audit-webhook-batch-throttle-burst
    audit-webhook-batch-throttle-enable audit-webhook-batch-throttle-qps audit-webhook-config-file
    audit-webhook-initial-backoff audit-webhook-mode audit-webhook-truncate-enabled
    audit-webhook-truncate-max-batch-size audit-webhook-truncate-max-event-size audit-webhook-version
    authentication-config authentication-token-webhook-cache-ttl authentication-token-webhook-config-file
    authentication-token-webhook-version authorization-config authorization-policy-file
    authorization-webhook-cache-authorized-ttl authorization-webhook-cache-unauthorized-ttl
    authorization-webhook-config-file authorization-webhook-version coordinated-leadership-lease-duration
    coordinated-leadership-renew-deadline coordinated-leadership-retry-period cors-allowed-origins debug-socket-path
    default-not-ready-toleration-seconds default-unreachable-toleration-seconds delete-collection-workers
    disabled-metrics egress-selector-config-file emulated-version emulation-forward-compatible
    enable-bootstrap-token-auth encryption-provider-config encryption-provider-config-automatic-reload event-ttl
    kubelet-certificate-authority kubelet-client-certificate kubelet-client-key kubelet-preferred-address-types
    kubelet-timeout kubernetes-service-node-port max-connection-bytes-per-sec min-compatibility-version oidc-ca-file
    oidc-client-id oidc-groups-claim oidc-groups-prefix oidc-issuer-url oidc-required-claim oidc-signing-algs
    oidc-username-claim oidc-username-prefix peer-advertise-ip peer-advertise-port peer-ca-file
    proxy-client-cert-file proxy-client-key-file request-timeout requestheader-allowed-names
    requestheader-client-ca-file requestheader-extra-headers-prefix requestheader-group-headers
    requestheader-uid-headers requestheader-username-headers runtime-config-emulation-forward-compatible
    service-account-max-token-expiration service-account-signing-endpoint service-node-port-range
    show-hidden-metrics-for-version strict-transport-security-directives tls-cipher-suites tls-curve-preferences
    tls-min-version tls-sni-cert-key token-auth-file
"""
#: Flags without a value are set to this.
_SET: Final = "true"


class FlagError(Exception):
    """Raised for command lines that kube-apiserver rejects, with the text that it prints."""


def parse(words: Sequence[str]) -> dict[str, str]:
    """Return the values of flags, those that are repeated joined by commas. Raises FlagError.

    >>> parse(["--secure-port=1", "--feature-gates=A=true", "--feature-gates", "B=true", "--allow-privileged"])
    {'secure-port': '1', 'feature-gates': 'A=true,B=true', 'allow-privileged': 'true'}
    """
    found: dict[str, list[str]] = {}
    values: list[str] = []
    for word in words:
        if word.startswith("--"):
            name, has_value, value = word[2:].partition("=")
            values = found.setdefault(name, [])
            if has_value:
                values.append(value)
        elif not found:
            raise FlagError(f"unknown command {word!r}")
        else:
            values.append(word)
    return {name: ",".join(values) or _SET for name, values in found.items()}


def check(given: Iterable[str]) -> list[str]:
    """Return a warning for each flag that is not implemented. Raises FlagError for one that kube-apiserver lacks."""
    warnings = []
    without_effect, not_implemented = _WITHOUT_EFFECT.split(), _NOT_IMPLEMENTED.split()
    for name in given:
        if name in not_implemented:
            warnings.append(f"Flag --{name} is not implemented by the lab, and is ignored")
        elif name not in IMPLEMENTED and name not in without_effect:
            raise FlagError(f"unknown flag: --{name}")
    return warnings


def usage() -> str:
    """Return the help of kube-apiserver: envtest searches it for flags that depend on the release."""
    lines = [f"      --{name} {text}" for name, text in IMPLEMENTED.items()]
    ignored = [f"      --{name}" for name in sorted((*_WITHOUT_EFFECT.split(), *_NOT_IMPLEMENTED.split()))]
    title = "kube-apiserver of an Allotment lab, for controller-runtime's envtest."
    return "\n".join([title, "", "Flags:", *lines, "", "Accepted without an effect:", *ignored, ""])
