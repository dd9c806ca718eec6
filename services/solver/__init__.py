"""Which model answers for a scenario, and with which arguments.

`solve` refuses a scenario that no model fits; `predict` says what can be said of any; `with_weights` computes what a
policy asks for and no router can know. The models themselves, and scipy with them, are imported when the first
scenario is solved.
"""

from services.solver.solution import METHODS, Prediction, Solution
from services.solver.solve import predict, solve
from services.solver.weights import with_weights

__all__ = ["METHODS", "Prediction", "Solution", "predict", "solve", "with_weights"]
