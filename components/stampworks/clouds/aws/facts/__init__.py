"""Facts about an AWS account and its region. Reading them changes nothing."""
