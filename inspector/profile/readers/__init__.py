"""One file per format: each reads files that belong together into a `RecordingBuilder`."""
