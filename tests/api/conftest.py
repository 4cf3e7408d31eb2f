from hypothesis import settings

# Other work shares the cores: how long an example took says nothing here.
settings.register_profile("scalebench", deadline=None)
settings.load_profile("scalebench")
