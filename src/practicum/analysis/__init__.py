"""What a run says, not drawn: for terminal, notebook, page, report and the loop itself."""
