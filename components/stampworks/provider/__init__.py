"""The Pulumi plugin behind the toolkit's own resources."""
