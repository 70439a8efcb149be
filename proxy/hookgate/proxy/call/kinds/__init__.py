"""The kinds of judged calls besides the generation of one answer: batches, inputs and interactions."""
