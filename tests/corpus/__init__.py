"""The patcher on training scripts that nobody here wrote: `make corpus`."""
