"""`benchmarks library`: building a library and searching it, and the PDFs that takes.

`wording` says what a generated paper says, `typesetting` and `paper` set it as journals do, and
`pdfs` writes the files: whole, scanned, encrypted and broken ones.
"""
