"""``allot describe``: details of objects in the layout of ``kubectl describe``; one module per layout."""
