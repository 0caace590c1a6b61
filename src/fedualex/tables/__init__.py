"""From tables to models: goals, the way from columns to a problem, measures, the model that is kept."""
