"""From a question and the offers to an answer: pure functions, no clock, no database."""
