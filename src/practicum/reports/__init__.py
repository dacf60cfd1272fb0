"""A run or a study on paper: one file that stands alone, as HTML, PDF or Markdown."""
