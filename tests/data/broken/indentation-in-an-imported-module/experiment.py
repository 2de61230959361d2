import augment

augment.flip([1])
