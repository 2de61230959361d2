import faulthandler

from native import call

faulthandler.enable()
print(call(3))
