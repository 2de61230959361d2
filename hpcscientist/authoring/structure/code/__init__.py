"""All of a candidate's code together: definitions, scopes, objects, what names stand for."""
