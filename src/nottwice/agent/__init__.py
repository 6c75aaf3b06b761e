"""An agent that can be killed at any beat: plan, context, reason, act, observe, learn."""
