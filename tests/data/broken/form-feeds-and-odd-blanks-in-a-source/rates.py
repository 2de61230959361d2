# Sections are parted by form feeds and by a next-line character,
# as some editors do:   .
TEXT = "one two"



def rate(step):
    text = "a é b"; return undefined_rate
