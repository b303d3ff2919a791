"""Files of the user: what a patch must pass before they are written, the writing, and the way back."""
