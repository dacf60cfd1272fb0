"""Shell tasks generated from a seed, and the assertions that check them."""
