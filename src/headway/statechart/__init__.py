"""The pure core: charts as data, and the step that decides."""
