"""One router: the wire contract, the policies, the pure core and the process around it."""
