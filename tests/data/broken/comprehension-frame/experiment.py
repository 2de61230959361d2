def lengths(rows):
    return {name: [field + 1 for field in fields] for name, fields in rows.items()}


lengths({"a": ["b"]})
