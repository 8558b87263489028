"""The engine, in a process of its own: what happens to it cannot take the HTTP side down."""
