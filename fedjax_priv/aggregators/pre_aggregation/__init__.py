"""Steps from rows to rows before a rule; `pre_aggregator` holds their type and chains them with a rule."""
