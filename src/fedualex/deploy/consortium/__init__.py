"""Tables at sites: settings, kits, what is asked before, during and after a run."""
