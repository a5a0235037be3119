"""Systems whose uploads add up on a wireless channel."""
