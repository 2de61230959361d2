from paket.näherung import mittel
from schätzer import Schätzer

print(Schätzer(mittel).schätze([]))
