import json


class Settings:
    def __init__(self, text):
        self.values = json.loads(text)


print(Settings("{rate: 0.1}").values)
