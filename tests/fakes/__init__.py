"""Stand-ins for libraries and devices that CI machines lack."""
