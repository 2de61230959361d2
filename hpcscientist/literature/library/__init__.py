"""The library's folder: built from sources, stored as Arrow files, read by memory mapping."""
