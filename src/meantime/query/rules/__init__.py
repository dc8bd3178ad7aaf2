"""Rules that a trace has to keep: sentences, and whether they hold."""

from meantime.query.rules.checking import check_rules
from meantime.query.rules.figures import Breach, Verdict
from meantime.query.rules.grammar import Rule, parse_rule, parse_rules, read_rules

__all__ = ["Breach", "Rule", "Verdict", "check_rules", "parse_rule", "parse_rules", "read_rules"]
