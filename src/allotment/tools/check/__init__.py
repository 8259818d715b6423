"""``check``: what is wrong with manifests before a cluster sees them, and how to mend it.

``bundle`` is what rules look at: the documents of all files together, read as leniently as can be. A rule (``rules``)
is a plain function from a bundle to what it found. ``run`` holds a bundle against all rules.
"""
