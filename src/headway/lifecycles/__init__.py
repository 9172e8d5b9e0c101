"""The lifecycles that ship with Headway; each stands on what any other package could use too."""
