import heads

print(heads.build())
