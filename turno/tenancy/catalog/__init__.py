"""Check the live catalog against what provisioning and the matrix of rights say."""
