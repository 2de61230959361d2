"""`benchmarks sweep`: what one more idea costs a driver, after few of them and after many."""
