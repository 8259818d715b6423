"""The arguments of ``allot web``, ``allot top`` and ``allot run web``."""

from __future__ import annotations

import argparse
from typing import Final

from allotment.cli.arguments.shared_options import (
    Commands,
    add_catalog,
    add_connection,
    add_feature_gates,
    add_kube_version,
    lazy,
)

_WEB: Final = """\
Serve a page that shows the devices of a cluster, why pods are pending, and what
would happen if something changed. Every view has the same data as JSON at the
same address. Read-only, except in a lab.

  allot web                          the lab, or the current context
  allot web --context prod           another cluster, with your own permissions
  allot web --cluster snapshot.yaml  a cluster snapshot
  allot web --fleet dgx-a100-40gb:2  hardware, without a cluster
  allot web --playground             nothing: for trying manifests

The page listens on this computer only. The printed address contains a token
without which it does not answer. Ctrl-C ends it.
"""
_TOP: Final = """\
Show the devices of each node and the pending pods by cause in the terminal, and
follow changes. Read-only.

  allot top                          the lab, or the current context
  allot top --cluster snapshot.yaml  a cluster snapshot
  allot top --once                   print it once, also without a terminal

Keys: arrows select, Enter opens, Tab changes between nodes and pending pods,
/ filters by text, Esc goes back, q ends.
"""
_FLEET: Final = "hardware instead of a cluster: [NAME=][GPUSx]HARDWARE[:NODES][/MODE],… (see allot fleet list)"
#: The hint if no cluster is found.
NO_CLUSTER: Final = "specify a snapshot with --cluster FILE or hardware with --fleet SPEC, or run allot up"
_ORIGIN: Final = "let scripts of this origin use the API with a token, for Headlamp (http://localhost:4466); repeatable"


def add_web(commands: Commands) -> None:
    """Add ``web`` and ``top``."""
    web = commands.add_parser("web", help="show a cluster, and why pods are pending, in the browser", description=_WEB)
    place = add_place(web)
    place.add_argument("--playground", action="store_true", help="no cluster: only for trying manifests")
    server = web.add_argument_group("server")
    server.add_argument(
        "--address", default="127.0.0.1", metavar="ADDRESS", help="address to listen on (default: %(default)s)"
    )
    server.add_argument(
        "--port", type=int, metavar="N", help="port to listen on; 0: any that is free (default: 8780, else a free one)"
    )
    server.add_argument("--certificate", metavar="FILE", help="serve HTTPS with this certificate (PEM)")
    server.add_argument("--key", metavar="FILE", help="private key of the certificate (PEM)")
    _add_hosts(server)
    server.add_argument("--no-browser", action="store_true", help="do not open the page in the browser")
    add_catalog(web)
    web.add_argument("--with-parent", action="store_true", help=argparse.SUPPRESS)  # set by allot up --web
    web.set_defaults(run=lazy("web"), missing="no cluster specified", otherwise=f"{NO_CLUSTER}, or use --playground")

    top = commands.add_parser("top", help="show devices and pending pods live in the terminal", description=_TOP)
    add_place(top)
    top.add_argument("--once", action="store_true", help="print it once and exit")
    top.set_defaults(run=lazy("top.command"), missing="no cluster specified", otherwise=NO_CLUSTER)


def add_page(parser: argparse.ArgumentParser) -> None:
    """Add the options of the page as a component, ``allot run web``."""
    parser.add_argument(
        "--bind-address", default="127.0.0.1:8444", metavar="HOST:PORT",
        help="address of the page; requires --tls-cert-file except on loopback (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--http", action="store_true", help="serve HTTP on any address, because a service mesh encrypts connections"
    )
    _add_hosts(parser)
    add_catalog(parser)


def add_place(parser: argparse.ArgumentParser) -> argparse._MutuallyExclusiveGroup:
    """Add the options that select what is watched: a running cluster, a snapshot or hardware."""
    cluster = parser.add_mutually_exclusive_group()
    cluster.add_argument("--cluster", action="append", nargs="+", default=[], metavar="FILE", help="cluster snapshot")
    cluster.add_argument("--fleet", action="append", nargs="+", default=[], metavar="SPEC", help=_FLEET)
    add_connection(parser)
    add_kube_version(parser)
    add_feature_gates(parser)
    return cluster


def _add_hosts(group: argparse._ActionsContainer) -> None:
    group.add_argument(
        "--allowed-host", action="append", default=[], metavar="NAME",
        help="name under which browsers reach the page, besides its address; repeatable",
    )  # fmt: skip
    group.add_argument(
        "--base-path", default="", metavar="PATH",
        help="path of the page behind a proxy, such as /allotment, whether or not the proxy removes it from requests",
    )  # fmt: skip
    group.add_argument("--allow-origin", action="append", default=[], metavar="ORIGIN", help=_ORIGIN)
