"""The arguments of ``allot cluster-autoscaler``."""

from __future__ import annotations

from typing import Final

from allotment.cli.arguments.autoscale import PROVIDERS, add_karpenter, add_simulated_cloud
from allotment.cli.arguments.shared_options import (
    Commands,
    add_catalog,
    add_connection,
    add_feature_gates,
    add_kube_version,
    add_renamed,
    lazy,
)

CAPACITY: Final = ("on-demand", "spot", "cheapest")
#: The default addresses of both servers.
CLOUD_PROVIDER: Final = "127.0.0.1:8086"
EXPANDER: Final = "127.0.0.1:8087"

_ABOUT: Final = """\
Serve Kubernetes' cluster-autoscaler: a cloud provider (externalgrpc) whose node
groups are instance types from the catalog, and an expander (grpc) that selects
the group with the lowest cost per pod among those that satisfy the pods and
their claims.

  allot cluster-autoscaler --nodes 0:10:aws/g5.*
                                 both servers, on loopback, with generated
                                 certificates
  allot cluster-autoscaler --nodes 1:4:aws/p4d.24xlarge/static-mig=1g.5gb:7
                                 GPUs in MIG mode; at least one node
  allot cluster-autoscaler --expander :8087 --tls-cert-file tls.crt \\
      --tls-private-key-file tls.key
                                 only the expander, for any cloud provider
  allot cluster-autoscaler --nodes 0:10:aws/g5.* --print-config
                                 flags and --cloud-config file for
                                 cluster-autoscaler
"""
_MORE: Final = """\
Clients of the cloud provider can order machines. Unless it listens only on
loopback, it requires a client certificate; no option disables that.
"""
_NODES: Final = "minimum and maximum number of machines of this type in each zone; repeatable"
_SLICES: Final = (
    "field number of resourceSliceBytes in the node template message, if your cluster-autoscaler has this field"
)
_GPU_LABEL: Final = "label on nodes whose GPUs are provided by a device plugin (default: no label)"
_PROVISION_TIME: Final = (
    "maximum time for the node and slices of a machine to appear; after that, the machine counts as failed"
    " (default: %(default)s)"
)


def add_cluster_autoscaler(commands: Commands) -> None:
    """Add ``cluster-autoscaler``."""
    parser = commands.add_parser(
        "cluster-autoscaler", help="serve a cloud provider and an expander to Kubernetes' cluster-autoscaler",
        description=_ABOUT, epilog=_MORE,
    )  # fmt: skip
    parser.set_defaults(run=lazy("cluster_autoscaler"), namespace="kube-system")
    add_connection(parser)
    add_kube_version(parser, "the cluster's version")
    add_feature_gates(parser)
    parser.add_argument(
        "--print-config", action="store_true", help="print the configuration for cluster-autoscaler, and exit"
    )

    servers = parser.add_argument_group("servers (default: both)")
    servers.add_argument(
        "--cloud-provider", metavar="HOST:PORT", help=f"address of the cloud provider (default: {CLOUD_PROVIDER})"
    )
    servers.add_argument("--expander", metavar="HOST:PORT", help=f"address of the expander (default: {EXPANDER})")
    add_renamed(
        servers,
        "--tls-cert-file",
        "--cert",
        metavar="FILE",
        help="certificate of the servers (PEM); reloaded on change",
    )
    add_renamed(
        servers, "--tls-private-key-file", "--key", metavar="FILE", help="private key of that certificate (PEM)"
    )
    add_renamed(
        servers, "--client-ca-file", "--client-ca", metavar="FILE",
        help="CA certificates for clients of the cloud provider (PEM)",
    )  # fmt: skip
    add_renamed(
        servers, "--cert-dir", "--certificates", metavar="DIR",
        help="directory for generated certificates, without --tls-cert-file (default: under the XDG data directory)",
    )  # fmt: skip
    add_renamed(
        servers, "--tls-san", "--host-name", action="append", default=[], metavar="NAME",
        help="additional host name for generated certificates; repeatable",
    )  # fmt: skip
    add_renamed(
        servers, "--plaintext", "--plain", action="store_true", help="disable TLS for a cloud provider on loopback"
    )

    groups = parser.add_argument_group("node groups")
    groups.add_argument("--nodes", action="append", default=[], metavar="MIN:MAX:TYPE[/MODE]", help=_NODES)
    add_catalog(groups)
    groups.add_argument("--zones", action="append", default=[], metavar="ZONE", help="allowed zones: us-east-1a,…")
    add_renamed(
        groups, "--capacity-type", "--capacity", choices=CAPACITY, default="on-demand",
        help="on-demand, spot, or cheapest: separate groups for on-demand and spot (default: %(default)s)",
    )  # fmt: skip
    provider = parser.add_argument_group("machine provider")
    provider.add_argument(
        "--provider", choices=PROVIDERS, default="karpenter",
        help="simulated: simulated machines in a lab (default: %(default)s)",
    )  # fmt: skip
    add_karpenter(provider)
    add_simulated_cloud(provider)

    settings = parser.add_argument_group("settings for cluster-autoscaler")
    add_renamed(
        settings, "--max-node-provision-time", "--provisioning", default="30m", metavar="DURATION", help=_PROVISION_TIME
    )
    settings.add_argument("--slices-field", type=int, default=0, metavar="N", help=_SLICES)
    settings.add_argument("--gpu-label", default="", metavar="LABEL", help=_GPU_LABEL)
