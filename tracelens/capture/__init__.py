"""The recording windows: what runs inside the user's process (agent), and beside it (session, monitor, environment)."""
