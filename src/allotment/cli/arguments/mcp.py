"""The arguments of ``allot mcp``."""

from __future__ import annotations

from typing import Final

from allotment.cli.arguments.shared_options import Commands, lazy
from allotment.cli.arguments.web import NO_CLUSTER, add_place

_MCP: Final = """\
Serve tools for assistants and agents (Model Context Protocol): why a pod is
pending, what would fit, which devices are free, mistakes in manifests and their
fixes, machines to buy. Read-only.

  allot mcp                          the lab, or the current context
  allot mcp --context prod           another cluster, with your own permissions
  allot mcp --cluster snapshot.yaml  a cluster snapshot
  allot mcp --fleet dgx-a100-40gb:2  hardware, without a cluster
  allot mcp --http 8790              over HTTP, for several clients

Without --http, it uses standard input and output: a client starts it. Answers
have at most 2 kB unless the client requests them with detail.
"""


def add_mcp(commands: Commands) -> None:
    """Add ``mcp``."""
    mcp = commands.add_parser("mcp", help="serve tools for assistants and agents (MCP)", description=_MCP)
    add_place(mcp)
    server = mcp.add_argument_group("HTTP")
    server.add_argument(
        "--http", metavar="[ADDRESS:]PORT", help="listen there, by default on this computer only; 0: any free port"
    )
    server.add_argument(
        "--token-file", metavar="FILE", help="file with the token that clients send (default: a new one is printed)"
    )
    mcp.set_defaults(run=lazy("mcp"), missing="no cluster specified", otherwise=NO_CLUSTER)
