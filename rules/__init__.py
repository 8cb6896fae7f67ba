"""Rule packs: YAML, no logic."""
