"""All cases, in the order of the table."""

from tests.chaos import cases_links, cases_routers, cases_servers, cases_surroundings
from tests.chaos.case import CASES

__all__ = ["CASES", "cases_links", "cases_routers", "cases_servers", "cases_surroundings"]
