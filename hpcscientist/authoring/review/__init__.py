"""Code review: a model judges code concept by concept, beside checks that need no model."""
