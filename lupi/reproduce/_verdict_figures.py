def truths_lines(records): return [str(records)[:1500]]
tables_lines=truths_lines
