"""The work: environments that come with Practicum, each found like one of your own."""
