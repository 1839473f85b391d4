"""The database: the only SQL of the project. Facts in, offers out; the schedule; what happened."""
