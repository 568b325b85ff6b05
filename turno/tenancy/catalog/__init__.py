"""Check the live catalog against provisioning and the matrix of rights."""
