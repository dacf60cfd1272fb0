"""The loop that closes acting, scoring and updating."""
