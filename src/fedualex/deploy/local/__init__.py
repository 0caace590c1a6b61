"""All parties on this machine, each a process of its own with its own folder, connected by loopback."""
