"""``allot envtest``, and the programs that controller-runtime's envtest starts: a lab instead of a built control plane.

envtest is the test environment of operators that are written in Go: it starts an API server and its store, without
controllers and nodes, and stops them after the tests. The programs of the folder that ``allot envtest`` creates run
:func:`run_program`: kube-apiserver is a lab without programs, with the ports and certificates in the flags that envtest
passes; etcd only reports that it is healthy, because the lab has its own store.
"""

from __future__ import annotations

from collections.abc import Sequence


def run_program(words: Sequence[str]) -> int:
    """Run a program and return its exit status. ``words``: its name, the release of Kubernetes and its arguments."""
    name, release, *arguments = words
    if name == "etcd":
        from allotment.cli.envtest import etcd

        return etcd.main(arguments)
    from allotment.cli.envtest import kube_apiserver

    return kube_apiserver.main(release, arguments)
