"""How a command is started with our code in it: `supervisor` (parent), `bootstrap/` (injected), `inside/` (hooks)."""
