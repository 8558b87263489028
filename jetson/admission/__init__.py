"""Who may ask now: a fair bounded queue, and what memory and heat allow."""
