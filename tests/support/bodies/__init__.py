"""Generated bodies of every dialect: what clients send and models answer, and what they could."""
