"""Changes to manifests as people wrote them: what changes is a value, and everything else keeps its bytes.

``edits`` says what is to change, in terms of the document's tree; ``rewriting`` makes it so in the text, keeping
comments, order, quotes and indentation, and proves it: the new text is read again and must hold the changed tree.
"""
