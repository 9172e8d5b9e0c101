"""The chart explorer: a local page to look at a chart and to step it. It needs the extra `service`."""
