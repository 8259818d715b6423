"""The parts of ``allot catalog``: which types are meant, and the manifests that are made of them."""
