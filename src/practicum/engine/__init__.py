"""One model that samples and learns."""
