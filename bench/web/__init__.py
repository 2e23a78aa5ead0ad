"""The programs of the web suite: an app, the servers it is served by, and their clients."""
