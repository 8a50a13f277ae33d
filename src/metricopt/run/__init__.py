"""What a run leaves behind: counted queries, a journal, events, and what shows them."""
