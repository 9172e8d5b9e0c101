"""The lifecycles that ship with Headway; they use only public modules, as any other package can."""
