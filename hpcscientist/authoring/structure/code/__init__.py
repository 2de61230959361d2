"""All code of a candidate as one whole: definitions, scopes, objects, what names stand for."""
