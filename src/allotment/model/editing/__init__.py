"""Edits manifests in place: edited values change, every other byte of the file stays.

``edits`` describes changes of the document's tree. ``rewriting`` applies them to the text, keeps comments, order,
quotes and indentation, and verifies the result: the new text is parsed again and must contain the changed tree.
"""
