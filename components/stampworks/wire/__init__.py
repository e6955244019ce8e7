"""What Pulumi's engine and its plugins say to each other: the protocol, and values as it carries them."""
