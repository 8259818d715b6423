"""Kubernetes' protobuf: bodies to trees (``reading``) and trees to bodies (``writing``), both by the field table."""

from allotment.model.protobuf.reading import MAGIC as MAGIC
from allotment.model.protobuf.reading import ProtobufError as ProtobufError
from allotment.model.protobuf.reading import decode as decode
from allotment.model.protobuf.writing import encode as encode
