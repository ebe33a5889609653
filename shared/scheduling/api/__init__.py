"""What a plugin must provide: the product's own and users' plugins alike."""
