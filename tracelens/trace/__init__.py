"""Reading: from a trace file to the queryable Timeline.

`chrome.load(path)` gives a `Trace` (columns), `timeline.build(trace, recording)` a `Timeline` (tables). Nothing is
imported here, so that a caller pays only for the half it uses.
"""
