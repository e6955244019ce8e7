"""A program for hosts: write down what is there before a cluster comes, and put it back when the cluster goes.

`keeper.py` sends these files over ssh, and nothing of them is installed. A host has Python 3.9 or newer, and only its
standard library.
"""
