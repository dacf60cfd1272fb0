"""What runs as the first process of a sandbox: `program.text()` gives it as one Python program.

The files here are joined into one text and handed to the sandbox's own Python, so they import the
standard library and each other only, and run on Python 3.9 and newer.
"""
