"""Requests that the API server sends to other servers: webhooks, and the servers of aggregated APIs.

:class:`~.client.OutboundClient` is the entrance; the API has one, ``Api.outbound``.

- ``await client.post(config, body, seconds)`` sends JSON to a ``clientConfig`` (a URL or a Service, with a
  caBundle) and returns the decoded JSON of the answer.
- ``await client.send(target, request)`` returns the head of an answer and its body in pieces, for proxies and watches;
  close the answer.

Failures are :class:`~.errors.CallFailed`, in the words of Go's clients, which Kubernetes shows to users. A Service is
resolved as kube-proxy does: its ready endpoints, which are ports of pods of the lab, or addresses that an EndpointSlice
of the user names, such as those of a process on this machine.
"""
