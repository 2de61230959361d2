"""The library's folder: built from sources, kept as Arrow files, read by memory mapping."""
