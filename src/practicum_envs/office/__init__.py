"""A company for each episode: chat, code, boards, files, colleagues, and tasks in it."""
