"""Completion of command lines: what argparse's parsers and a cluster know, in the protocol of kubectl's own."""
