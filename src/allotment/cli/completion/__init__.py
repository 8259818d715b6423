"""Shell completion from argparse's parsers and a cluster's objects, in the protocol of kubectl's completion."""
