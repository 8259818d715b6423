"""Loads manifests from files, folders and standard input as documents with the source position of every value.

``files`` finds and reads files, ``manifest_text`` splits a text into documents, ``yaml_parser`` and ``json_parser``
parse one document into a tree of plain values exactly as kubectl does, and ``documents`` provides the positions.
Every error becomes an ``InputProblem``; no input, however hostile, raises an exception or hangs.
"""

from allotment.model.loading.comments import Comments as Comments
from allotment.model.loading.comments import find_comments as find_comments
from allotment.model.loading.documents import Document as Document
from allotment.model.loading.files import load_paths as load_paths
from allotment.model.loading.files import manifest_files as manifest_files
from allotment.model.loading.manifest_text import LoadResult as LoadResult
from allotment.model.loading.manifest_text import is_manifest_text as is_manifest_text
from allotment.model.loading.manifest_text import load_text as load_text
from allotment.model.loading.manifest_text import load_tree as load_tree
from allotment.model.problems import InputProblem as InputProblem
from allotment.model.problems import Position as Position
