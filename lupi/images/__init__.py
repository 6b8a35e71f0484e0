"""From image files to visual words: reading, descriptors, vocabularies, Fisher vectors, masks."""
