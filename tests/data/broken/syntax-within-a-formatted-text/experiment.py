from report import line

print(line(3))
