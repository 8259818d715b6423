"""The way to a cluster that is elsewhere: kubeconfig, credentials, connections, and the API versions that it has."""
