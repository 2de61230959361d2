"""Asking Semantic Scholar, arXiv and OpenAlex, where a machine has internet and one wants it.

Nothing here is imported unless `literature.online` names a service, or `hpcsci library fetch`
is called.
"""
