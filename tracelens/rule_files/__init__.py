"""Reading our YAML: files laid over ours, and mappings asked key by key with every mistake collected.

Below all stages, because schemes and levers are both described in `rules/`.
"""
