def depth(tree):
    return 1 + max(depth(child) for child in tree["children"])


tree = {"children": []}
tree["children"].append(tree)
print(depth(tree))
