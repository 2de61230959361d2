"""What the text of a manuscript is held against: typed numbers, scopes, claims, citations."""
