"""What runs inside the user's process during a trial: sandbox, seeds, step timer, recorded tensors, profiler window."""
