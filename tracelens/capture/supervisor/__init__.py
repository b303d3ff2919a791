"""What runs in the parent process of `tracelens profile`. Never imports torch, nor anything of `inside`."""
