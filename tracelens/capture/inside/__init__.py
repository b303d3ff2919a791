"""What runs in the user's training process: recording windows, the profiler, source attribution. torch is imported."""
