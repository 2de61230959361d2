import faulthandler

from search import descend

faulthandler.enable()
descend(1.0)
