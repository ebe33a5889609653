"""Filter and Score plugins, one file each; pure functions over columns."""
