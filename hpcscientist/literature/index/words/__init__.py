"""Search by words: what is indexed, how it is written, found and explained."""
