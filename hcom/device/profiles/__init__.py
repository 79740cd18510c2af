"""Device profiles: one YAML file per device, each figure with its source."""
