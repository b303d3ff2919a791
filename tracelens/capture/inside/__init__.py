"""What runs in the user's training process, where torch is imported.

When does recording begin and end?
    `agent`, `exit_guard`, `main_thread_timer`, `forward_only_pass`, `time_window`
What happens at which step?
    `windows`, `phases`, `recording_limits`, `loop_bounds`, `loop_counters`, `frame_values`
What records?
    `instruments`: `profiler_session`, `cupti_detach`, `stack_sampler`, `cuda_event_log`, `gc_log`
    `line_clock` with `line_log`, `project_code`, `line_monitoring` and `line_tracing`
    `slow_step_watch`, behind the windows
Which line makes a call that may wait?
    `attribution`, `sync_debug_mode`, `warning_redirect`, `user_frames`
Which line switches on what makes every time meaningless?
    `anomaly_log`
Where is a DataLoader made, and what does it spend its batches on?
    `loader_places`, `batch_split`, `worker_split`, `worker_throughput`, `index_clock`
What is kept and written?
    `recording_data`, `process_facts`, `saving`, `rank_files`
How does a script begin a recording itself?
    `profile_api`
"""
