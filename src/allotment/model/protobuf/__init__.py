"""Kubernetes' protobuf: bodies to trees (``reading``) and trees to bodies (``writing``), both by the field table."""

from allotment.model.protobuf.decoder import MAGIC as MAGIC
from allotment.model.protobuf.decoder import ProtobufError as ProtobufError
from allotment.model.protobuf.decoder import decode as decode
from allotment.model.protobuf.encoder import encode as encode
