"""Views: functions of a history and options that return a document."""
