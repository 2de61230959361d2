class Schätzer:
    def __init__(self, verfahren):
        self.verfahren = verfahren

    def schätze(self, werte):
        return self.verfahren(werte) * 2
