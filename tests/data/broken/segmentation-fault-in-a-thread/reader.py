import ctypes


def read():
    first()


def first():
    ctypes.string_at(0)
