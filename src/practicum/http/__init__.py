"""What every server of Practicum does the same: who may ask, with which key, and listening."""
