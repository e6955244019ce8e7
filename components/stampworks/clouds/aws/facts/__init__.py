"""What AWS says of an account and its region, read and never changed."""
