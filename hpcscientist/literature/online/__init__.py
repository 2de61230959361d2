"""Optional searches at Semantic Scholar, arXiv and OpenAlex, for machines with internet.

Nothing here is imported unless `literature.online` names a service, or `hpcsci library fetch`
is called.
"""
