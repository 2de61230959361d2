"""The checks of `hpcsci doctor`: whether this machine and site can run campaigns."""
