"""Claims, volumes and storage classes as the volume plugins look them up."""
