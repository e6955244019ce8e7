"""The local cloud: real nodes made of namespaces on this machine."""
