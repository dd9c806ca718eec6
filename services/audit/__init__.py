"""Whether generator, routers and servers tell the same of each job, and what they tell: on records alone, PURE."""
