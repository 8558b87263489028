"""Reports: figures with intervals from a run's answers, as JSON, Markdown and one HTML page."""

from .files import write_reports
from .markdown import markdown
from .summary import Figure, Row, Summary, read_summary, summarise

__all__ = ["Figure", "Row", "Summary", "markdown", "read_summary", "summarise", "write_reports"]
