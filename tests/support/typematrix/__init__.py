"""Every type of Spark with its edge values, and what Spark prints for them; tests take the product with doors."""
