"""The OCI image, built without a daemon: `python -m deploy.image.build FOLDER`."""
