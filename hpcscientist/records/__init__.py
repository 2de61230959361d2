"""Records that rooms exchange: frozen and strict, with no behaviour beyond derived fields."""
