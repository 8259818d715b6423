"""HTTP/1.1 for the lab: sockets in, :class:`~allotment.apiserver.http_messages.Request` out, whatever a client does.

An ordinary web server would do for most of it. Three things ask for one of our own: watches (thousands of open streams
whose readers may stop reading), upgrades that hand over the raw connection (exec, and port-forward's SPDY), and the
share of each request's time that a general one costs.

The way of a request: ``reading`` turns bytes into requests, ``connection`` answers them in order, ``heads`` and
``pieces`` write answers and streams, ``handshake`` and ``websocket`` take over where a client asks for an upgrade;
``server`` owns all connections, their deadlines and the stop.
"""

from allotment.lab.http_server.event_loop import new_event_loop as new_event_loop
from allotment.lab.http_server.limits import Limits as Limits
from allotment.lab.http_server.server import Server as Server
from allotment.lab.http_server.tls import server_context as server_context
