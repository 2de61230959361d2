from stream import batches, normalised

for batch in normalised(batches([3, 0, 1])):
    print(batch)
