"""Loaded by every Python that has this folder on its path: public scripts get synthetic data, without a download."""

import synthetic

synthetic.install()
