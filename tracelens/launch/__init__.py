"""How any command is started with our code inside it: the supervising parent, the bootstrap folder, the hooks."""
