"""Program that the engine starts: `python -m tools.kubernetes_plugin ENGINE`."""

import os
import time
from concurrent.futures import ThreadPoolExecutor

import grpc
from stampworks.wire.protocol import provider_pb2_grpc

from .server import Server

_MESSAGE_BYTES_MAX, _POLL_S = 400 << 20, 0.5

server = grpc.server(
    ThreadPoolExecutor(max_workers=16), options=[("grpc.max_receive_message_length", _MESSAGE_BYTES_MAX)]
)
provider_pb2_grpc.add_ResourceProviderServicer_to_server(Server(), server)
print(server.add_insecure_port("127.0.0.1:0"), flush=True)
server.start()
parent = os.getppid()
while os.getppid() == parent:  # an engine that was killed sends no message
    time.sleep(_POLL_S)
server.stop(grace=None)
