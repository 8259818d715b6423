"""The Kubernetes API server without its network layer: request handling, watches and a durable object store."""
