"""What a reviewer can say of code: concept by concept, with evidence, and by signs."""
