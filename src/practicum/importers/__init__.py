"""Traces that others recorded, read into episodes: a file in, episodes out, nothing else.

Every reader goes through its file part by part and holds one part at a time. What cannot be read is
said with its line and its reason, and the rest is read on.
"""

from practicum.importers.recognise import FORMATS, Format, files_in, find_format, recognise
from practicum.importers.records import Imported, Part

__all__ = ["FORMATS", "Format", "Imported", "Part", "files_in", "find_format", "recognise"]
