from hpcscientist.api import Campaign as Campaign
from hpcscientist.api import launch as launch
from hpcscientist.api import load_campaign as load_campaign

__version__: str
