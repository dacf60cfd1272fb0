"""Credit, prefix trees, losses, and the loop that closes acting, scoring and updating."""
