"""What this machine and site offer and lack: `hpcsci doctor`."""
