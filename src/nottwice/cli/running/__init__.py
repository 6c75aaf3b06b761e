"""What `run` and `talk` share: how a run is advanced and reported."""
