"""How models are laid out on the machines there are; known before anything is submitted."""
