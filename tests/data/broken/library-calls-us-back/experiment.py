import json

from decode import quantity

TEXT = '{"rate": {"value": 1, "unit": "s"}, "size": {"value": 2}}'


def read(text):
    return json.loads(text, object_hook=quantity)


print(read(TEXT))
