"""The core of binding: requests to the API and their outcomes, as a pure state machine."""
