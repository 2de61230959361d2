"""Readers: turn the inputs of a library into papers and symbols, one by one.

`detect` finds the sources in folders and files; `base.read` reads one of them. Nothing read here
is executed, and no archive is unpacked to disk.
"""
