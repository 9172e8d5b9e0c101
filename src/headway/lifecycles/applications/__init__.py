"""Job applications: one task fills in and submits one application, alone or with a person."""
