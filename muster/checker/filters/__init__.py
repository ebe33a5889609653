"""The Filter rules a second time, for one pod and one node at a time, written to be read."""
