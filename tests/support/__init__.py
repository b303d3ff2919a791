"""What tests share: builders of traces, Runs and diagnoses, and running scripts, patches and pages."""
