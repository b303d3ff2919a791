"""Averages and the line that shows them, as the references of torchvision have them."""

from __future__ import annotations

METERS = """
class Average:
    def __init__(self, name="loss"):
        self.name, self.value, self.total, self.count, self.mean = name, 0.0, 0.0, 0, 0.0
    def update(self, value, n=1):
        self.value = value
        self.total += value * n
        self.count += n
        self.mean = self.total / self.count
    def __str__(self):
        return "{} {:.6f} ({:.6f})".format(self.name, self.value, self.mean)
class Progress:
    def __init__(self, meters):
        self.meters = meters
    def display(self, batch):
        print(batch, " ".join(str(meter) for meter in self.meters))
"""

SUM_WITH_ITEM = """
class Sum:
    def __init__(self):
        self.total = 0.0
    def add(self, value):
        self.total = self.total + value
    def item(self):
        value, self.total = self.total, 0.0
        return float(value)
"""
"""A class of the project that has a method of a tensor's name, which changes its object."""
