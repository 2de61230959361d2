"""The places where trials run: this machine, a cluster's queue, or the driver's own allocation."""
