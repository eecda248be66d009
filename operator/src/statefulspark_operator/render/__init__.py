"""The Kubernetes objects of a job, built from its spec. Pure: the same input gives the same manifest."""
