from parse import expression

print("parsing", flush=True)
expression("((", 0)
