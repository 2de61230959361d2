import settings

print(settings.Config)
