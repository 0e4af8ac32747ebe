"""The report of a plan for people: one HTML file that loads nothing, readable for six brokers or a thousand."""

from kafka_reassignment.plan.report.page import plan_page, title_of

__all__ = ["plan_page", "title_of"]
