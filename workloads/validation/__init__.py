"""Programs with which a cluster measures itself. They run on its nodes: python3 -m validation PROGRAM..."""
