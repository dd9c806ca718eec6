"""The wire contract between routers and servers: all that a server may know of a router."""
