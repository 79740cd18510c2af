"""The commands: starting the ranks of a job, and looking at what they would run."""
