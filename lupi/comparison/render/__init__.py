"""What a person sees of a summary: the table in the terminal, the page, its figures."""
