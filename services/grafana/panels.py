"""The parts that all dashboards are made of: data source, queries, panels, variables, annotations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, timeseries
from grafana_foundation_sdk.models.common import (
    BigValueTextMode,
    GraphThresholdsStyleMode,
    LegendDisplayMode,
    LegendPlacement,
    ScaleDistribution,
    TooltipDisplayMode,
    VisibilityMode,
)
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DashboardLinkType,
    DataSourceRef,
    DynamicConfigValue,
    Threshold,
    ThresholdsMode,
    VariableOption,
    VariableRefresh,
    VariableSort,
)

SOURCE = DataSourceRef(type_val="prometheus", uid="herdless-prometheus")

PLAIN = "none"
SHARE = "percentunit"
SECONDS = "s"

Query = tuple[str, str]
"""A PromQL expression, and its legend."""

Panel = TypeVar("Panel", timeseries.Panel, stat.Panel)

LIVE, LOW, HIGH, MODEL = "live", "low", "high", "model: "


def live(quantity: str, where: str = "") -> list[Query]:
    """A recorded quantity over the last minute: its mean, and where nine tenths of its 10-second values lie.

    Args:
        quantity: As in `herdless:QUANTITY:rate10s`.
        where: Matchers of labels that leave one series at a time.
    """
    series = f"herdless:{quantity}:rate10s{{{where}}}[1m]"
    return [
        (f"max(avg_over_time({series}))", LIVE),
        (f"max(quantile_over_time(0.05, {series}))", LOW),
        (f"max(quantile_over_time(0.95, {series}))", HIGH),
    ]


def live_by(quantity: str, label: str, where: str = "") -> list[Query]:
    """The mean of a recorded quantity over the last minute, a line for each value of a label."""
    series = f"herdless:{quantity}:rate10s{{{where}}}[1m]"
    return [(f"avg by ({label}) (avg_over_time({series}))", f"{{{{{label}}}}}")]


def model(quantity: str, where: str = "", by: str = "") -> list[Query]:
    """What models predict of a quantity, a line for each method and, where a label is given, each value of it."""
    matchers = ", ".join(filter(None, (f'quantity="{quantity}"', where)))
    labels = f"{by}, method" if by else "method"
    name = f"{{{{{by}}}}} ({{{{method}}}})" if by else "{{method}}"
    return [(f"max by ({labels}) (herdless_model_value{{{matchers}}})", MODEL + name)]


def graph(title: str, description: str, unit: str, queries: Sequence[Query], *, span: int = 8, log: bool = False,
          limit: float | None = None) -> timeseries.Panel:  # fmt: skip
    """A panel with a line a series: what is predicted is dashed, and a band lies between `low` and `high`.

    Args:
        title: Of the panel.
        description: Shown behind the panel's (i).
        unit: One of Grafana's units.
        queries: What it shows.
        span: Its width, of 24.
        log: Whether the axis is logarithmic.
        limit: A value above which the background is red.
    """
    panel = (
        timeseries.Panel()
        .unit(unit)
        .height(8)
        .line_width(2)
        .fill_opacity(0)
        .show_points(VisibilityMode.NEVER)
        .legend(
            common.VizLegendOptions()
            .display_mode(LegendDisplayMode.LIST)
            .placement(LegendPlacement.BOTTOM)
            .show_legend(True)
        )
        .tooltip(common.VizTooltipOptions().mode(TooltipDisplayMode.MULTI))
        .override_by_regexp(f"/^{MODEL}/", [DynamicConfigValue("custom.lineStyle", {"fill": "dash", "dash": [10, 6]})])
        .override_by_name(LIVE, [DynamicConfigValue("color", {"mode": "fixed", "fixedColor": "blue"})])
        .override_by_name(LOW, _EDGE)
        .override_by_name(HIGH, [
            *_EDGE,
            DynamicConfigValue("custom.fillBelowTo", LOW),
            DynamicConfigValue("custom.fillOpacity", 20),
        ])
    )  # fmt: skip
    if log:
        panel.scale_distribution(common.ScaleDistributionConfig().type(ScaleDistribution.LOG).log(10))
    else:
        panel.axis_soft_min(0)
    if limit is not None:
        panel.thresholds(_red_above(limit)).thresholds_style(
            common.GraphThresholdsStyleConfig().mode(GraphThresholdsStyleMode.AREA)
        )
    return _finished(panel, title, description, queries, span)


_EDGE = [
    DynamicConfigValue("custom.lineWidth", 0),
    DynamicConfigValue("color", {"mode": "fixed", "fixedColor": "blue"}),
    DynamicConfigValue("custom.hideFrom", {"legend": True, "tooltip": False, "viz": False}),
]


def number(title: str, description: str, unit: str, queries: Sequence[Query], *, span: int = 4,
           limit: float | None = None) -> stat.Panel:  # fmt: skip
    """A panel with the last value of each series in large digits, red above `limit`."""
    panel = (
        stat.Panel()
        .unit(unit)
        .height(4)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]).values(False).fields(""))
    )
    if limit is not None:
        panel.thresholds(_red_above(limit))
    return _finished(panel, title, description, queries, span)


def name_of(title: str, description: str, query: Query, *, span: int = 4) -> stat.Panel:
    """A panel that shows the legend of its series instead of a value."""
    return number(title, description, PLAIN, [query], span=span).text_mode(BigValueTextMode.NAME)


def _red_above(limit: float) -> dashboard.ThresholdsConfig:
    steps = [Threshold(color="green"), Threshold(value=limit, color="red")]
    return dashboard.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(steps)


def _finished(panel: Panel, title: str, description: str, queries: Sequence[Query], span: int) -> Panel:
    panel.title(title).description(description).datasource(SOURCE).span(span)
    for place, (expression, legend) in enumerate(queries):
        target = prometheus.Dataquery().datasource(SOURCE).ref_id(chr(ord("A") + place)).range()
        panel.with_target(target.expr(expression).legend_format(legend))
    return panel


def choice(name: str, label: str, metric: str, of: str, where: str = "") -> dashboard.QueryVariable:
    """A variable: the values that a label has; several may be chosen, and at first all are."""
    return (
        dashboard.QueryVariable(name)
        .label(label)
        .datasource(SOURCE)
        .query(f"label_values({metric}{where}, {of})")
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(VariableSort.ALPHABETICAL_ASC)
        .include_all(True)
        .all_value(".*")
        .multi(True)
        .current(VariableOption(selected=True, text="All", value="$__all"))
    )


POLICY = ("policy", "Policy", "herdless_router_policy", "policy")
POOL = ("pool", "Pool", "herdless_server_slots", "pool")
ROUTER = ("router", "Router", "up", "instance", '{job="router"}')


def _mark(name: str, color: str, expression: str) -> dashboard.AnnotationQuery:
    return dashboard.AnnotationQuery().name(name).datasource(SOURCE).enable(True).icon_color(color).expr(expression)


# Grafana asks for one value a minute here, so each expression looks a minute back.
MARKS = (
    ("Policy", "purple",
     "sum by (policy) (herdless_router_policy) > sum by (policy) (herdless_router_policy offset 1m)"),
    ("Load", "orange", "changes(herdless_load_rate[1m]) > 0"),
    ("Membership", "blue",
     "count by (job) (up) != count by (job) (up offset 1m)"
     " or sum by (pool) (herdless_server_servers) != sum by (pool) (herdless_server_servers offset 1m)"),
)  # fmt: skip
"""What happened, at the top of every panel."""


def board(uid: str, title: str, description: str, variables: Sequence[tuple[str, ...]]) -> dashboard.Dashboard:
    """An empty dashboard, with what all of them have in common."""
    made = (
        dashboard.Dashboard(title)
        .uid(uid)
        .description(description)
        .tags(["herdless"])
        .time("now-15m", "now")
        .refresh("5s")
        .timezone("browser")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .link(
            dashboard.DashboardLink("Herdless").type(DashboardLinkType.DASHBOARDS).tags(["herdless"]).as_dropdown(False)
        )
    )
    for variable in variables:
        made.with_variable(choice(*variable))
    for mark in MARKS:
        made.annotation(_mark(*mark))
    return made
