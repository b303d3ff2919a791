"""What the text of a project says: one file, the names in it, the functions of other files. Knows no training loop."""
