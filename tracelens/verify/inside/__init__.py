"""What runs inside the user's process during an arm: the fence around its files, its numbers, its clock, its window."""
