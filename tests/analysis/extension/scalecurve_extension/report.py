from scalecurve.curves.results import SeriesResult
from scalecurve.reporting.contributions import Contribution, contribute
from scalecurve.reporting.drawing import Drawing, Sheet
from scalecurve.reporting.findings import Analysis
from scalecurve.reporting.registry import Body, plot, section


@section("weather", "Weather", order=15)
def weather_section(analysis: Analysis) -> Body:
    return Body(sentences=("It was dry.",), methods=("The weather was looked up.",))


class Weather(Contribution):
    def beside(self, analysis: Analysis) -> str:
        return "It was as dry as elsewhere."

    def in_headline(self, analysis: Analysis, series: SeriesResult) -> str:
        return ", and dry"


contribute(Weather())


@plot("weather", section="weather", order=10)
def weather_plot(analysis: Analysis) -> Drawing | None:
    sheet = Sheet()
    sheet.panels[0].plot([1, 2], [3, 4])
    return sheet.drawing("Weather", "A line.")
