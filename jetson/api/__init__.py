"""OpenAI's HTTP interface: JSON to a request for the engine, and its events back to JSON."""
