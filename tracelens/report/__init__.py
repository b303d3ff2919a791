"""Diagnosis in, document out: text for a terminal, JSON for programs, one HTML file for people, tracks for Perfetto.

Each renderer is a pure function of a Diagnosis: it prints nothing, writes nothing, asks no clock, and so gives the same
bytes for the same Run.
"""
