"""Pictures from clients, taken without trust: they leave here as bytes, never as names."""
