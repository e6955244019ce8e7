"""Communication between Pulumi's engine and its plugins: the protocol, and values in it."""
