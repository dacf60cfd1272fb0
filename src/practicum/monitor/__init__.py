"""The local web page of `practicum monitor`: runs, rollouts and labels, as folders have them."""
