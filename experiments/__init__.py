"""The tables and figures of the five papers: run again where the data are at hand, and said so where they are not."""
