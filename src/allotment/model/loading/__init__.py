"""Reads manifests: files, folders and standard input become documents that know where every value was written.

The way: ``files`` finds and reads text, ``texts`` splits it into documents, ``yamls`` and ``jsons`` turn one document
into a tree of plain values exactly as kubectl would see it, ``documents`` gives each object its positions.
Whatever is wrong becomes a ``Problem``; no input, however hostile, raises or hangs.
"""

from allotment.model.loading.comments import Comments as Comments
from allotment.model.loading.comments import find_comments as find_comments
from allotment.model.loading.documents import Document as Document
from allotment.model.loading.files import load_paths as load_paths
from allotment.model.loading.files import manifest_files as manifest_files
from allotment.model.loading.manifest_text import LoadResult as LoadResult
from allotment.model.loading.manifest_text import load_text as load_text
from allotment.model.problems import InputProblem as InputProblem
from allotment.model.problems import Position as Position
