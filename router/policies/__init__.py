"""One file a policy family; `router.registry` discovers them, and none imports another."""
