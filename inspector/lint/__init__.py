"""Rules: conditions over metrics, the packs that hold them, and the engine that applies them."""
