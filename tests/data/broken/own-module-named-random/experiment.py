import tempfile

print(tempfile.gettempdir())
