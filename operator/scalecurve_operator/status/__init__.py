"""What the operator writes for people: statuses, headlines and Events."""
