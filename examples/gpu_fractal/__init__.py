"""A small GPU application for sharing examples: serves pictures of the Mandelbrot set over HTTP, a new one every 10 s.

``python -m gpu_fractal`` serves them on port 5000. Each picture shows the device that drew it and how the device is
shared. The containers of the examples run this package; it imports no other part of Allotment.
:class:`gpu_fractal.site.Site` is the application without a socket.
"""
