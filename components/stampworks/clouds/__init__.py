"""One package for each cloud: what differs between clouds lives here and in planning/clouds."""
