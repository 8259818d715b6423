"""The Kubernetes API without sockets: requests in, answers and watch streams out, objects in a durable store."""
