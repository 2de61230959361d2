from tables import Table

table = Table({"id": [1], "text": ["a"]})
table.select("id", "label", "fold")
