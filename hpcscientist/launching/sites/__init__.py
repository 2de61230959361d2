"""The places where trials run: this machine, a cluster's queue, the driver's own allocation."""
