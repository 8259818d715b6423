"""A small GPU application to share GPUs with: pictures of the Mandelbrot set, a new one every ten seconds, over HTTP.

``python -m gpu_fractal`` serves them on port 5000. Each picture says which device drew it and how that device is
shared. Nothing else of allotment is imported here: this is what runs inside the containers of the examples.
:class:`gpu_fractal.site.Site` is the same without a socket.
"""
