"""From a manuscript to a document: LaTeX, a PDF, an HTML page, and what is wrong with them."""
