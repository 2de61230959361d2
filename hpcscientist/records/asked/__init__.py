"""What models are asked, and what they answer: proposers, authors, those who vet."""
