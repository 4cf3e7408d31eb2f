from hypothesis import settings

# Other work shares the cores: how long an example took says nothing here.
settings.register_profile("scalecurve", deadline=None)
settings.load_profile("scalecurve")
