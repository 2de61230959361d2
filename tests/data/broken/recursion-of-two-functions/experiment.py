from grammar import expression

expression("(" * 4000)
