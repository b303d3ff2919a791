"""Who owns each microsecond of a step: what the GPU did, and where it was idle, which line of the host kept it so.

join    carries the lines of the attributed steps over to the clean ones
"""
