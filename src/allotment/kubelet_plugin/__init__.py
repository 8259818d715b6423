"""The gRPC API between a kubelet and the DRA drivers on its node: messages, client, server and sockets."""
