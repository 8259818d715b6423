"""The HTTP/1.1 server of the lab, which passes requests to the API server and writes its responses.

Three requirements rule out a general web server: watches (thousands of open streams whose readers may stop reading),
upgrades that hand over the raw connection (exec, and port-forward's SPDY), and the time per request.

Data flow of a request: ``tls_handshake`` encrypts a connection, ``request_parser`` turns bytes into requests,
``connection`` answers them in order, ``response_heads`` and ``streaming`` write responses and streams, ``handshake``
and ``websocket`` handle upgrades; ``server`` owns all connections, their deadlines and the shutdown.
"""

from allotment.lab.http_server.limits import Limits as Limits
from allotment.lab.http_server.server import Server as Server
from allotment.lab.http_server.server import new_event_loop as new_event_loop
from allotment.lab.http_server.tls import server_context as server_context
