from schema import Table


class Row(Table):
    label = ""


print(Row)
