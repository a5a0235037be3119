"""Reading results: plots, modelled time and traffic, how far attacks take a rule."""
