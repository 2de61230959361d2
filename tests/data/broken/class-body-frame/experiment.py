from config import Config

print(Config.sizes)
