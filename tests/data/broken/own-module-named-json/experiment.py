import json


def save(scores):
    return json.dumps(scores)


save({"accuracy": 0.5})
