"""Exact Markov chains of a few servers: what every policy does, without a limit theorem.

`builder` explores and solves a chain given by its steps, `fleet` says what a few servers are and reads the
results off their stationary law, `queues` has the policies that look at queue lengths, `pull` those that wait
for pull-messages.
"""
