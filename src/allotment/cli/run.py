"""``allot run``: runs a component of Allotment in a cluster until SIGTERM or SIGINT."""

from __future__ import annotations

import asyncio
import logging
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from allotment.api.objects.releases import features, release
from allotment.cli.inputs.durations import duration
from allotment.cli.live.connection import way_to
from allotment.cli.parser import EXIT_BAD_INPUT
from allotment.cluster.inspection.release import FeatureOverrides
from allotment.cluster.leader_election import LeaseLost, LeaseTimings, identity
from allotment.components import logs, registry
from allotment.components.certificate import CertificateError
from allotment.components.component import Component
from allotment.components.http_server import AddressUnavailable
from allotment.components.settings import Address, ComponentSettings, EndpointSettings, LeaderElectionSettings, address
from allotment.errors import InputError
from allotment.extras import require
from allotment.model.releases import RELEASES

if TYPE_CHECKING:
    from allotment.cluster.remote.kubeconfig import ClusterTarget

log = logging.getLogger(__name__)

#: Values that disable a server; 0 as in Kubernetes' flags.
_OFF: Final = ("", "0")
_EXIT_ENDED: Final = 1
_EXIT_INTERNAL_ERROR: Final = 3


def run(arguments: Namespace) -> int:
    """Run a component; return 0 if it was stopped, 1 if it failed."""
    require(f"allot run {arguments.component}", *_extras(arguments))
    settings = settings_of(arguments)
    component = _COMPONENTS[arguments.component](arguments)
    way = way_to(arguments)
    settings = _placed(settings, arguments, way)
    from allotment.components.lifecycle import ClusterUnavailable, run_component

    logs.set_up(settings.logs, verbose=settings.verbose)
    logs.capture_uncaught()
    try:
        asyncio.run(run_component(component, settings, way))
    except (AddressUnavailable, CertificateError) as error:
        if settings.logs == "text":
            raise InputError(str(error)) from None
        log.error("%s: %s", component.name, error)
        return EXIT_BAD_INPUT
    except (ClusterUnavailable, LeaseLost) as error:
        log.error("%s: %s", component.name, error)
        return _EXIT_ENDED
    except Exception as error:
        if isinstance(error, component.fatal_errors):
            log.error("%s: %s", component.name, error)
            return _EXIT_ENDED
        log.exception("%s: stopped by an internal error", component.name)
        return _EXIT_INTERNAL_ERROR
    return 0


def settings_of(arguments: Namespace) -> ComponentSettings:
    """Return the settings of a component from the command line. Raises InputError."""
    version = release(arguments.kube_version) if arguments.kube_version else ""
    gates = features(version or RELEASES[-1], arguments.feature_gates).gates
    if arguments.otlp_endpoint:
        if "://" not in arguments.otlp_endpoint:
            raise InputError(f"--otlp-endpoint: expected a URL (http://host:4318), found {arguments.otlp_endpoint!r}")
    return ComponentSettings(
        serving=_serving(arguments),
        leading=_leading(arguments) if getattr(arguments, "leader_elect", False) else None,
        logs=arguments.log_format,
        verbose=arguments.verbose,
        traces=arguments.otlp_endpoint,
        feature_overrides=FeatureOverrides(version, gates),
        shutdown_seconds=duration("--stop-timeout", arguments.stop_timeout),
    )


def _serving(arguments: Namespace) -> EndpointSettings:
    health = _address("--health-bind-address", arguments.health_bind_address)
    metrics = _address("--metrics-bind-address", arguments.metrics_bind_address)
    files = arguments.tls_cert_file, arguments.tls_private_key_file
    if any(files) and not all(files):
        raise InputError("--tls-cert-file and --tls-private-key-file: specify both", "a certificate requires its key")
    if metrics is not None:
        if not metrics.local and not all(files):
            raise InputError(
                f"--metrics-bind-address {metrics}: requires --tls-cert-file and --tls-private-key-file, because"
                " other hosts can reach it", "specify both files, or serve on loopback: 127.0.0.1:8080",
            )  # fmt: skip
    certificate, key = (Path(file) if file else None for file in files)
    return EndpointSettings(health, metrics, certificate, key)


def _address(option: str, text: str | None) -> Address | None:
    if text is None or text in _OFF:
        return None
    try:
        return address(text)
    except ValueError as error:
        raise InputError(f"{option}: {error}") from None


def _leading(arguments: Namespace) -> LeaderElectionSettings:
    lease = duration("--lease-duration", arguments.lease_duration)
    renew = duration("--renew-deadline", arguments.renew_deadline)
    retry = duration("--retry-period", arguments.retry_period)
    if not (lease >= 1 and lease == int(lease)):
        raise InputError(f"--lease-duration: expected whole seconds, found {arguments.lease_duration}")
    if not lease > renew > 1.2 * retry > 0:
        raise InputError(
            "--lease-duration, --renew-deadline, --retry-period: each must be shorter than the one before",
            "the defaults are 15s, 10s and 2s",
        )
    terms = LeaseTimings(int(lease), renew, retry)
    return LeaderElectionSettings(identity(), arguments.lease_namespace or "", arguments.lease_name, terms)


def _placed(settings: ComponentSettings, arguments: Namespace, way: ClusterTarget) -> ComponentSettings:
    """Set the default namespace of the Lease: that of the pod."""
    if settings.leading is None or arguments.lease_namespace:
        return settings
    namespace = "kube-system" if way.token_file is None or way.context else way.namespace
    return settings._replace(leading=settings.leading._replace(namespace=namespace))


def _extras(arguments: Namespace) -> Iterator[str]:
    """The extras that the component requires, as it is configured."""
    if arguments.metrics_bind_address not in _OFF:
        yield "run"
    if arguments.otlp_endpoint:
        yield "traces"
    if arguments.component == "web":
        yield "web"
    if arguments.component == "driver":
        from allotment.cli.driver import extras_of

        yield from extras_of(arguments)


def _autoscaler(arguments: Namespace) -> Component:
    from allotment.api.plans.catalog import select_catalog
    from allotment.cli.autoscale import options_of
    from allotment.cli.inputs.catalogs import report_problems

    found = select_catalog(arguments.catalog)
    options_of(arguments, found, features(RELEASES[-1], ()))  # report invalid options before connecting to the cluster
    report_problems(found)
    return registry.autoscaler(lambda known: options_of(arguments, found, known))


def _exporter(arguments: Namespace) -> Component:
    from allotment.cli.metrics import catalog_of, most_series

    types = catalog_of(arguments.catalog)
    return registry.exporter(types, per_claim=arguments.per_claim, most_series=most_series(arguments))


def _driver(arguments: Namespace) -> Component:
    from allotment.cli.driver import driver_of

    return registry.driver(*driver_of(arguments))


def _web(arguments: Namespace) -> Component:
    from allotment.cli.web_component import component_of

    return component_of(arguments)


_COMPONENTS: Final[Mapping[str, Callable[[Namespace], Component]]] = {
    "scheduler": lambda arguments: registry.scheduler(
        arguments.scheduler_name, duration("--bind-delay", arguments.bind_delay) if arguments.bind_delay else None
    ),
    "claims": lambda _: registry.claims(),
    "taints": lambda _: registry.taints(),
    "annotator": lambda _: registry.annotator(),
    "autoscaler": _autoscaler,
    "driver": _driver,
    "exporter": _exporter,
    "web": _web,
}
