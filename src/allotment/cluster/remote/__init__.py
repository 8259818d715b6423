"""Access to a cluster over HTTP: kubeconfig, credentials, connections and API version negotiation."""
