"""The objects of the API: experiments and trials, and the parts of their specs."""
