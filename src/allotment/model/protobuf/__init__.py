"""Kubernetes' protobuf encoding: ``decoder`` converts bodies to trees, ``encoder`` trees to bodies."""

from allotment.model.protobuf.decoder import MAGIC as MAGIC
from allotment.model.protobuf.decoder import ProtobufError as ProtobufError
from allotment.model.protobuf.decoder import decode as decode
from allotment.model.protobuf.encoder import encode as encode
