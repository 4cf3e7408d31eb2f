"""The strategies of programs torch and tensorflow: what each declares, and its rules."""
