"""Records: what passes between rooms. Frozen, strict, without behaviour beyond derived fields."""
