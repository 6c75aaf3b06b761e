"""What can go wrong: a kill, a takeover, a failing or full disk, a power loss."""
