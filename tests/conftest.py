"""What every test shares: property tests are judged by their answers, not by the clock."""

from hypothesis import settings

# Two workers on a small machine make single examples slow at random; a deadline would report
# the machine and not the code.
settings.register_profile("nottwice", deadline=None, max_examples=50)
settings.load_profile("nottwice")
