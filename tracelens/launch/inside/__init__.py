"""What runs in the user's process: hooks on optimizers, backward and DataLoaders, and what they need of torch."""
